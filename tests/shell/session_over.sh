#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A mount that is cut off for longer than its lease has lost its session: what
# was open gives EIO, for good, all else goes on, and one line says so.  Another
# store at the server's address is not taken for the one that is mounted.
. "$(dirname "$0")/lib.sh"

start_server --lease-ms 2000 --grace-ms 2000
LISTEN=$ADDRESS
start_proxy
M=$T/mnt
N=$T/other
mount_at "$M"
client=$CLIENT_PID
mount_at "$N"
other=$CLIENT_PID
OPTIONS=(--listen "$LISTEN" --lease-ms 2000 --grace-ms 2000)
DATA=$T/store

# The server is not to inherit what this script has open on the mounts.
# shellcheck disable=SC2016
WITHOUT_FILES=(bash -c 'for fd in /proc/$$/fd/*; do
	fd=${fd##*/}
	[ "$fd" -le 2 ] || exec {fd}>&-
done
exec "$@"' without_files)
start_again() { # STORE
	AS_USER=("${WITHOUT_FILES[@]}")
	start_server --store "$1" "${OPTIONS[@]}"
	AS_USER=()
}
count() { # TEXT: lines of both mounts' logs
	cat "$T/mnt.log" "$T/other.log" | grep -c -- "$1" || true
}
are_back() { # COUNT
	[ "$(count 'back at')" -eq "$1" ]
}

printf 'first\n' >"$M/file"
printf 'cached\n' >"$M/cached"
mkdir "$M/dir"
cat "$M/cached" >/dev/null
printf 'mapped\n' >"$M/mapped"
start_holder old "$M/mapped"

# ---- idle for longer than the lease ----------------------------------------------

exec 5<>"$M/file" 6<"$M/cached"
equal "$(cat <&6)" cached "bytes"
# It keeps its session by itself: at least each third of the lease it says
# something.
calls() {
	ask_figures "$client" "$T/mnt.log" 'calls [0-9]'
	sed -n 's/.*calls \([0-9]*\).*/\1/p' <<<"$figures"
}
has_called() {
	[ "$(calls)" -ge "$1" ]
}
before=$(calls)
wait_until "signs of life for over two leases" has_called $((before + 7))
printf 'second\n' >&5
equal "$(count 'lost the server')" 0 "losses"
equal "$(cat "$N/file")" second "what was written after a long rest"

# ---- away for longer than the lease ----------------------------------------------

is_expired() {
	[ "$(grep -c 'not come back in time' "$T/server.log")" -ge 2 ]
}
# What it has locked goes to another mount, which the proxy does not cut off.
D=$T/direct
proxied=$ADDRESS
ADDRESS=$LISTEN
mount_at "$D"
direct=$CLIENT_PID
ADDRESS=$proxied
: >"$D/locked"
exec 7<>"$M/locked" 8<>"$D/locked"
flock 7
! flock -n 8 || fail "two mounts have one lock"
proxy cut
wait_until "the end of the sessions" is_expired
flock 8
printf 'kept\n' >&8
cat "$M/file" >"$T/late" &
reader=$!
PIDS+=("$reader")
# The root is opened without the server, and so in no session.
ls "$M" >"$T/listing" &
lister=$!
PIDS+=("$lister")
lists() { # getdents64()
	grep -q '^217 ' "/proc/$lister/syscall"
}
[ ! -r /proc/self/syscall ] || [ "$(uname -m)" != x86_64 ] ||
	wait_until "somebody who lists the root" lists
proxy pass
wait_until "the mounts to be back" are_back 2
! printf 'late\n' >&7 2>/dev/null || fail "a write under a lost lock was taken"
! flock -n "$N/locked" true || fail "the lock went back to who had lost it"
equal "$(cat "$N/locked")" kept "what the new holder wrote"
exec 7>&- 8>&-
flock "$N/locked" true
umount_at "$D" "$direct"
wait_for_end "$reader" || fail "a reader that opened the file failed"
wait_for_end "$lister" || fail "who has listed the root failed"
equal "$(sort "$T/listing")" "$(ls "$N" | sort)" "the root, listed"
for fd in 5 6; do
	status=0
	(exec cat <&$fd) >"$T/stdout" 2>"$T/stderr" || status=$?
	equal "$status" 1 "status of reading descriptor $fd"
	grep -q 'Input/output error' "$T/stderr" ||
		fail "reading descriptor $fd: $(cat "$T/stderr")"
done
if (printf 'late\n' >&5) 2>/dev/null; then
	fail "wrote to a file of a session that is over"
fi
exec 5>&- 6>&-
# What is stored to a mapping is written back, though the kernel chooses for that the
# open whose mapping is the newest, and that one is dead.
start_holder new "$M/mapped"
order new map ok
order old map ok
order new "store M" ok
equal "$(cat "$N/mapped")" Mapped "what was stored to a mapping"
end_holder new
end_holder old
printf 'third\n' >>"$M/file"
equal "$(tail -n 1 "$N/file")" third "bytes written by the new session"
equal "$(count 'is over')" 2 "lines that say so"
equal "$(ls "$M/dir" | wc -l)" 0 "a directory"
say "ok: away for too long"

# ---- another store ----------------------------------------------------------------

exec 5>>"$M/file"
kill_server
start_again "$T/wrong"
says_wrong() {
	[ "$(count 'another store')" -ge 2 ]
}
wait_until "the mounts to say that it is another store" says_wrong
status=0
timeout 2 cat "$M/file" >/dev/null 2>&1 || status=$?
equal "$status" 124 "status of a reader that waits"
kill_server
start_again "$DATA"
wait_until "the mounts to be back" are_back 4
printf 'fourth\n' >&5
exec 5>&-
equal "$(tail -n 1 "$N/file")" fourth "bytes written after that"
equal "$(count 'another store')" 2 "lines that say so"
say "ok: another store is waited out"

umount_at "$M" "$client"
umount_at "$N" "$other"
stop_server
