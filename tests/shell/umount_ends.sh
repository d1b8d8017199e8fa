#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whatever a mount is in when it is unmounted, its processes end soon after the last
# use of it: with a server that is there, away or silent, with requests under way,
# by each way to unmount.  Only a copy of the mount in another mount namespace keeps
# them, and the command says so.
. "$(dirname "$0")/lib.sh"

ROUNDS=${LONG:+50}
ROUNDS=${ROUNDS:-${SMALL:+1}}
ROUNDS=${ROUNDS:-2}
# Not all sessions end by BYE here; the others are not to fill the server.
SERVER=(--lease-ms 10000)
start_server "${SERVER[@]}"
LISTEN=$ADDRESS
M=$T/mnt
mkdir "$M"
head -c 3M /dev/urandom >"$T/data"

worst_ms=0 ends=0
now_ms() {
	date +%s%3N
}
# ends_soon WHAT: supervisor and daemon.
ends_soon() {
	local started took
	started=$(now_ms)
	wait_until "the client to end: $1" is_gone "$CLIENT_PID"
	wait "$CLIENT_PID" || fail "$1: the client ended with status $?"
	wait_until "the daemon to end: $1" is_gone "$daemon"
	took=$(($(now_ms) - started))
	[ $took -le $worst_ms ] || worst_ms=$took
	ends=$((ends + 1))
}
begin() {
	mount_at "$M"
	has_daemon
	cp "$T/data" "$M/data"
}
# Processes that wait for a server which says nothing.
start_waiters() {
	waiters=()
	cat "$M/data" >/dev/null 2>&1 &
	waiters+=($!)
	dd if="$T/data" of="$M/other" bs=1M oflag=direct status=none 2>/dev/null &
	waiters+=($!)
	mkdir "$M/made.$RANDOM" 2>/dev/null &
	waiters+=($!)
	PIDS+=("${waiters[@]}")
	wait_until "all of them to wait" are_waiting
}
are_waiting() {
	ask_figures "$daemon" "$T/mnt.log" 'in flight'
	# And perhaps what was answered without the server.
	grep -q 'in flight [2-9],' <<<"$figures"
}
# However they end.
end_waiters() {
	kill -KILL "${waiters[@]}" 2>/dev/null || true
	wait "${waiters[@]}" 2>/dev/null || true
}

# ---- each state, each way ---------------------------------------------------------

for ((round = 0; round < ROUNDS; round++)); do
	begin
	"$RDMAFS" umount "$M"
	ends_soon "nothing was under way"

	begin
	umount "$M"
	ends_soon "by umount(8)"

	for signal in TERM INT; do
		begin
		kill -$signal "$CLIENT_PID"
		ends_soon "SIG$signal to the supervisor"
		begin
		kill -$signal "$daemon"
		ends_soon "SIG$signal to the daemon"
	done

	# In use until later.
	begin
	exec 3<"$M/data" 4>>"$M/appended"
	"$RDMAFS" umount -l "$M"
	cmp "$T/data" - <&3
	printf 'line\n' >&4
	exec 3<&- 4>&-
	ends_soon "the last file was closed"

	# Whoever waits for a silent server dies, and with the last of them the mount.
	begin
	kill -STOP "$SERVER_PID"
	start_waiters
	"$RDMAFS" umount -l "$M"
	end_waiters
	ends_soon "the last who waited was killed"
	kill -CONT "$SERVER_PID"

	begin
	kill -STOP "$SERVER_PID"
	start_waiters
	"$RDMAFS" umount -f -l "$M"
	ends_soon "umount -f"
	end_waiters
	kill -CONT "$SERVER_PID"

	begin
	kill -STOP "$SERVER_PID"
	"$RDMAFS" umount "$M"
	ends_soon "the server does not take leave"
	kill -CONT "$SERVER_PID"

	# A daemon dies just then.
	begin
	kill -KILL "$daemon"
	"$RDMAFS" umount "$M"
	wait_until "the end without a daemon" is_gone "$CLIENT_PID"
	wait "$CLIENT_PID" || fail "the client ended with status $?"
	ends=$((ends + 1))

	# In the middle of a copy, which goes on.
	begin
	rm -f "$M/copy"
	for ((i = 0; i < 8; i++)); do
		cat "$T/data"
	done >"$M/copy" &
	copier=$!
	PIDS+=("$copier")
	wait_until "the copy to have begun" test -s "$M/copy"
	"$RDMAFS" umount -l "$M"
	kill -KILL "$daemon"
	wait "$copier" || fail "the copy failed"
	wait_until "the end by another daemon" is_gone "$CLIENT_PID"
	wait "$CLIENT_PID" || fail "the client ended with status $?"
	ends=$((ends + 1))
	begin
	equal "$(stat -c %s "$M/copy")" $((8 * $(stat -c %s "$T/data"))) "size"
	"$RDMAFS" umount "$M"
	ends_soon "what was copied is there"

	# A server that is away.
	begin
	kill_server
	"$RDMAFS" umount "$M"
	ends_soon "the server is away"
	start_server --listen "$LISTEN" "${SERVER[@]}"

	begin
	kill_server
	start_waiters
	"$RDMAFS" umount -l "$M"
	end_waiters
	ends_soon "killed while the server is away"
	start_server --listen "$LISTEN" "${SERVER[@]}"

	begin
	kill_server
	kill -KILL "$daemon"
	"$RDMAFS" umount -l "$M"
	wait_until "the end without server and daemon" is_gone "$CLIENT_PID"
	wait "$CLIENT_PID" || fail "the client ended with status $?"
	ends=$((ends + 1))
	start_server --listen "$LISTEN" "${SERVER[@]}"
done
say "ok: $ends ends, the slowest after $worst_ms ms"

# ---- while a request is read ------------------------------------------------------

if has_preload aborted_read; then
	AS_USER=(env "LD_PRELOAD=$PRELOAD")
	begin
	AS_USER=()
	"$RDMAFS" umount "$M"
	ends_soon "a request was being read"
	say "ok: a read that was aborted"
fi

# ---- a copy in another namespace --------------------------------------------------

if [ "$(id -u)" -eq 0 ]; then
	begin
	unshare -m sh -c ': >"$1" && exec sleep 1000' sh "$T/copied" &
	keeper=$!
	PIDS+=("$keeper")
	wait_until "the copy" test -e "$T/copied"
	"$RDMAFS" umount "$M" 2>"$T/stderr"
	grep -q "not in the mount namespace of sleep (process $keeper)" \
		"$T/stderr" || fail "umount said: $(cat "$T/stderr")"
	! is_mounted "$M" || fail "$M is still mounted"
	# It serves there.
	cmp "$T/data" "/proc/$keeper/root$M/data"
	! is_gone "$CLIENT_PID" || fail "the client ended before the copy"
	kill -KILL "$keeper"
	wait "$keeper" 2>/dev/null || true
	ends_soon "the copy is gone"
	say "ok: a copy"
fi
stop_server
