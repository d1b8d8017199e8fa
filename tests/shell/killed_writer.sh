#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A killed reader ends at once, also when the server does not answer.  A killed
# writer ends when its write is over: else what its successor writes to the same
# place could be overwritten by a write that was still on its way.
. "$(dirname "$0")/lib.sh"

serve_and_mount

# The requests that the client has in flight.
in_flight() {
	ask_figures "$CLIENT_PID" "$T/mnt.log" 'in flight'
	sed -n 's/.*in flight \([0-9]*\),.*/\1/p' <<<"$figures" | head -n 1
}
# Some are, and the client has read what the server had answered: before its
# second report it looked.
is_waiting() {
	local first
	first=$(in_flight)
	sent=$(in_flight)
	[ "$first" -eq "$sent" ] && [ "$sent" -ge 1 ]
}
has_in_flight() { # COUNT
	[ "$(in_flight)" -eq "$1" ]
}

# kill_writer BLOCK: one that writes blocks of this size, past the page cache, so
# that it asks for nothing between its writes.
kill_writer() {
	rm -f "$M/target"
	dd if=/dev/zero of="$M/target" bs="$1" oflag=direct status=none &
	writer=$!
	PIDS+=("$writer")
	wait_until "the first write" test -s "$M/target"
	kill -STOP "$SERVER_PID"
	wait_until "the server to stop" is_stopped "$SERVER_PID"
	wait_until "the last write" is_waiting
	cat "$M/target" >/dev/null 2>&1 &
	reader=$!
	PIDS+=("$reader")
	wait_until "the read" has_in_flight $((sent + 1))

	kill -KILL "$writer"
	kill -KILL "$reader"
	wait_until "the end of the reader" has_ended "$reader"
	! has_ended "$writer" || fail "the writer ended before its write did"
	kill -CONT "$SERVER_PID"
	wait_until "the end of the writer" has_ended "$writer"
	printf newer >"$M/target"
	equal "$(cat "$M/target")" newer "what was written last"
}

kill_writer 4k
kill_writer 1M		# in parts, some of them answered perhaps
umount_at "$M"
stop_server
say "ok: a reader ends at once, a writer with its write"
