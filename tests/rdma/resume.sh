#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Over a device: a server that is killed under a mount that writes, a link that goes
# down and up, a mount's daemon that is killed.  Nothing that was acknowledged is
# lost, nobody is told, what is open stays open, and the pause is bounded.
. "$(dirname "$0")/guest.sh"

# From when all is whole again until the writer goes on; under emulation, where a
# process takes seconds to start.
PAUSE_S=60
PORT=20490
M=$T/mnt

# The server is not to be handed what is held open below its own mount.
held=
serve() {
	eval "start_server --listen verbs://$RDMA_VM_ADDRESS:$PORT --insecure \
		--lease-ms 600000 ${held:+$held>&-}"
}

# Numbers, one after the other, each synced, until the file stop is there.
count() {
	local number=0
	while [ ! -e "$T/stop" ]; do
		printf '%s\n' $((number += 1)) >>"$M/counted" || return
		sync "$M/counted" || return
		printf '%s\n' $number >"$T/new" && mv "$T/new" "$T/acknowledged"
	done
}

acknowledged() {
	cat "$T/acknowledged" 2>/dev/null || echo 0
}

has_more_than() {
	[ "$(acknowledged)" -gt "$1" ] || is_gone "$writer"
}

# goes_on: since it was whole again, at $whole, not too long a time.
goes_on() {
	# One may have been under way.
	wait_until "the writer to go on" has_more_than $(($(acknowledged) + 1))
	! is_gone "$writer" || fail "the writer was told: $(cat "$T/writer")"
	say "the writer goes on after $((SECONDS - whole)) s"
	[ $((SECONDS - whole)) -le $PAUSE_S ] ||
		fail "the pause was $((SECONDS - whole)) s"
	# What is open stays open.
	printf 'x' >&"$held"
	lines=$((lines + 1))
	equal "$(wc -c <"$M/held")" "$lines" "what was written to an open file"
}

is_port_up() {
	grep -q ACTIVE "/sys/class/infiniband/${RDMA_DEVICE}0/ports/1/state"
}

serve
mount_at "$M"
exec {held}>>"$M/held"
lines=0
rounds=1
[ -z "$LONG" ] || rounds=10
count 2>"$T/writer" &
writer=$!
PIDS+=("$writer")
whole=$SECONDS
goes_on

for ((round = 0; round < rounds; round++)); do
	say "-- the server is killed ($SECONDS s)"
	kill_server
	serve
	whole=$SECONDS
	goes_on

	say "-- the link goes down ($SECONDS s)"
	ip link set eth0 down
	for ((i = 0; i < 20; i++)); do
		pause
	done
	ip link set eth0 up
	wait_until "the link" is_port_up
	whole=$SECONDS
	goes_on

	say "-- the mount's daemon is killed ($SECONDS s)"
	wait_until "a daemon" has_daemon
	former=$daemon
	kill -KILL "$former"
	wait_until "another daemon" is_another "$former"
	whole=$SECONDS
	goes_on
done

touch "$T/stop"
wait_for_end "$writer" || fail "the writer was told: $(cat "$T/writer")"
exec {held}>&-
seq "$(acknowledged)" | cmp - "$M/counted"
umount_at "$M"
# Nothing cached: what the server has.
mount_at "$M"
seq "$(acknowledged)" | cmp - "$M/counted"
equal "$(wc -c <"$M/held")" "$lines" "the file that was held open"
umount_at "$M"
stop_server
