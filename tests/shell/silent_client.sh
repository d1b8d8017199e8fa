#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A client that is connected but says nothing, because its process was stopped or
# its link hangs, keeps its locks until another client wants them: then it is
# fenced.  When it is back its locks and open files fail, clearly, and all else
# works; what the other one has holds.
. "$(dirname "$0")/lib.sh"

start_server --lease-ms 3000
M=$T/mnt
N=$T/other
mount_at "$N"
other=$CLIENT_PID
start_proxy
mount_at "$M"
client=$CLIENT_PID
daemon=$(daemon_of "$client")

count() { # TEXT FILE
	grep -c -- "$1" "$2" || true
}
is_told() { # COUNT TEXT FILE
	[ "$(count "$2" "$3")" -ge "$1" ]
}
silence() { # HOW
	if [ "$1" = stopped ]; then
		kill -STOP "$daemon"
	else
		proxy stall
	fi
}
speak() {
	kill -CONT "$daemon"
	proxy pass
}

# ---- who has a file open there ------------------------------------------------

# Another process than this one, all of whose children would wait for the mount
# as they end.
hold() { # FILE
	mkfifo "$T/hold.in"
	: >"$T/hold.out"
	(
		exec 5>>"$1"
		while read -r command text; do
			status=0
			case $command in
			lock) flock -n 5 || status=$? ;;
			write) printf '%s\n' "$text" >&5 || status=$? ;;
			esac 2>"$T/hold.err"
			printf '%d\n' $status >>"$T/hold.out"
		done <"$T/hold.in"
	) &
	holder=$!
	PIDS+=("$holder")
	exec 8>"$T/hold.in"
	commands=0
}
has_done() {
	[ "$(wc -l <"$T/hold.out")" -ge "$commands" ]
}
tell() { # COMMAND: what it came to
	printf '%s\n' "$*" >&8
	commands=$((commands + 1))
	wait_until "'$*' to be done" has_done
	return "$(tail -n 1 "$T/hold.out")"
}
let_go() {
	exec 8>&-
	wait_for_end "$holder" || fail "who held the file ended with $?"
	rm "$T/hold.in"
}
must_fail_with_eio() { # COMMAND
	! tell "$@" || fail "'$*' works"
	grep -q 'Input/output error' "$T/hold.err" ||
		fail "'$*': $(cat "$T/hold.err")"
}

# ---- silence ------------------------------------------------------------------

silences=0
ends=0
for how in stopped hanging; do
	printf 'first\n' >"$M/$how"
	hold "$M/$how"
	tell lock

	# Nobody wants what it has.
	silence $how
	silences=$((silences + 1))
	wait_until "the silence to be seen" is_told $silences \
		'has said nothing for its lease' "$T/server.log"
	printf 'meanwhile\n' >>"$N/$how"
	speak
	tell write second
	! flock -n "$N/$how" true || fail "$how: its lock does not hold"
	equal "$(count 'lost the server' "$T/mnt.log")" $ends "losses"

	# Another one wants it.
	silence $how
	exec 7>>"$N/$how"
	timeout 60 flock 7 || fail "$how: the lock did not come"
	ends=$((ends + 1))
	silences=$((silences + 1))
	equal "$(count '): session is over: it said nothing' "$T/server.log")" $ends \
		"lines of the server"
	printf 'third\n' >&7

	# It is back.
	speak
	wait_until "the client to learn that its session is over" is_told $ends \
		'is over (.*wants what it has locked' "$T/mnt.log"
	must_fail_with_eio write late
	must_fail_with_eio lock
	let_go
	! flock -n "$M/$how" true || fail "$how: the other's lock does not hold"
	printf 'fourth\n' >&7
	exec 7>&-
	timeout 60 flock "$M/$how" printf 'fifth\n' >>"$M/$how"
	equal "$(paste -s -d' ' "$N/$how")" \
		"first meanwhile second third fourth fifth" "what was written"
	say "ok: $how"
done

umount_at "$M" "$client"
umount_at "$N" "$other"
stop_server
