#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon of a mount is killed, again and again: another goes on with it, with
# open files and locks, and whatever was under way has happened once.
. "$(dirname "$0")/lib.sh"
command -v flock >/dev/null || skip "flock is not installed"

start_server
N=$T/other
mount_at "$N"
other=$CLIENT_PID
M=$T/mnt
mount_at "$M"

# Returns when another serves.
kill_daemon() {
	local killed
	wait_until "the daemon" has_daemon
	killed=$daemon
	kill -KILL "$killed"
	stat "$M" >/dev/null
	wait_until "another daemon" is_another "$killed"
}

# ---- what is open stays open ---------------------------------------------------

head -c 300000 /dev/urandom >"$T/data"
cp "$T/data" "$M/gone"
exec 3<>"$M/gone" 4>>"$M/appended"
rm "$M/gone"
printf 'one\n' >&4
flock "$M/lock" sh -c 'echo $$ >"$1" && exec sleep 1000' sh "$T/holder" &
PIDS+=($!)
wait_until "the lock" test -s "$T/holder"
mkdir "$M/folder"
cd "$M/folder"
kill_daemon
printf 'two\n' >&4
equal "$(cat "$M/appended" "$N/appended" | tr '\n' ' ')" \
	"one two one two " "what was appended"
cmp "$T/data" /proc/self/fd/3
equal "$(stat -L -c %h /proc/self/fd/3)" 0 "links"
printf there >file
equal "$(cat "$N/folder/file")" there "bytes in the working directory"
cd "$T"

# ---- locks ---------------------------------------------------------------------

if flock -n "$N/lock" true; then
	fail "a lock was lost"
fi
# One that waits, in both mounts.
flock "$N/lock" touch "$T/there" &
PIDS+=($!)
flock "$M/lock" touch "$T/here" &
here=$!
PIDS+=("$here")
wait_until "a wait for the lock" grep -q "^73 " "/proc/$here/syscall"
kill_daemon
if flock -n "$N/lock" true; then
	fail "a lock was lost, the second time"
fi
[ ! -e "$T/here" ] && [ ! -e "$T/there" ] || fail "a wait has ended"
# A server that is new, too, is told of it by the new daemon.
port=${ADDRESS##*:}
kill_server
# Not with files that are open in the mount.
start_server --listen "iwarp://127.0.0.1:$port" 3<&- 4>&-
wait_until "the mount to be back" grep -q '1 locks reclaimed' "$T/mnt.log"
if timeout 60 flock -n "$N/lock" true; then
	fail "a lock was lost with the server"
fi
kill "$(cat "$T/holder")"
wait_until "the lock, here" test -e "$T/here"
wait_until "the lock, there" test -e "$T/there"

# ---- in flight, for sure -------------------------------------------------------

# The server runs what it had got only after the daemon died, and is then asked
# again.
is_sent() { # bytes wait in the server's socket
	awk -v port="$(printf ':%04X' "$port")" '$2 ~ port && $4 == "01" &&
		$5 !~ /:00000000$/ { found = 1 } END { exit !found }' \
		/proc/net/tcp
}
for round in 1 2 3; do
	kill -STOP "$SERVER_PID"
	mkdir "$M/made.$round" &
	made=$!
	printf 'three\n' >&4 &
	appended=$!
	rm "$M/folder/file" &
	removed=$!
	wait_until "the requests to be sent" is_sent
	wait_until "the daemon" has_daemon
	killed=$daemon
	kill -KILL "$killed"
	wait_until "another daemon" is_another "$killed"
	kill -CONT "$SERVER_PID"
	wait "$made" || fail "mkdir in round $round"
	wait "$appended" || fail "append in round $round"
	wait "$removed" || fail "rm in round $round"
	printf there >"$M/folder/file"
	equal "$(grep -c three "$N/appended")" "$round" "lines"
done

# ---- under load ----------------------------------------------------------------

kills=${LONG:+200}
kills=${kills:-${SMALL:+4}}
kills=${kills:-10}
mkdir "$M/load"
writers=()
for name in a b c; do
	"$BUILD/tests/tools/each_once" "$M/load" $name >"$T/count.$name" \
		2>"$T/$name.log" &
	writers+=($!)
	PIDS+=($!)
done
dd if=/dev/zero bs=1M count=$((kills * 20)) status=none |
	tee "$T/big" | dd of="$M/big" bs=1M iflag=fullblock status=none &
copier=$!
lines() {
	wc -l 2>/dev/null <"$M/load/log" || echo 0
}
has_grown() {
	[ "$(lines)" -gt "$1" ]
}
for ((i = 0; i < kills; i++)); do
	wait_until "work to go on" has_grown "$(lines)"
	kill_daemon
done
wait "$copier"
kill -TERM "${writers[@]}"
for pid in "${writers[@]}"; do
	wait "$pid" || fail "a writer ended with status $?"
done
cmp "$T/big" "$N/big"
for name in a b c; do
	grep "^$name " "$N/load/log" | cmp - <(seq -f "$name %.0f" 0 \
		$(($(cat "$T/count.$name") - 1))) || fail "lines of $name"
done
equal "$(find "$N/load" | wc -l)" 2 "what is left"
say "$kills kills, $(lines) lines"

# ---- the end, while another starts ----------------------------------------------

exec 3<&- 4>&-
wait_until "the daemon" has_daemon
kill -KILL "$daemon"
umount_at "$M"

# ---- the end, while there is none ------------------------------------------------

# Who has not gone in order keeps its locks until the lease is over.
mount_at "$M"
flock "$M/lock" sh -c 'echo $$ >"$1" && exec sleep 1000' sh "$T/holder" &
PIDS+=($!)
has_lock() {
	! flock -n "$N/lock" true
}
wait_until "the lock" has_lock
kill -STOP "$CLIENT_PID"
has_daemon
kill -KILL "$daemon"
"$RDMAFS" umount -l "$M"
kill "$(cat "$T/holder")"
kill -CONT "$CLIENT_PID"
wait_for_end "$CLIENT_PID" || fail "the client ended with status $?"
ended() { # TIMES
	[ "$(grep -c 'session ended' "$T/server.log")" -eq "$1" ]
}
wait_until "both sessions to end by BYE" ended 2
umount_at "$N" "$other"
stop_server
