#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The disk of a server hangs, and the server is there: hundreds of programs wait for
# it to read, or to sync, with all requests that a mount has.  df, stat and umount
# answer, whoever is killed ends, and when the disk goes on each is served; a soft
# mount gives up.
. "$(dirname "$0")/lib.sh"

need_preload bad_disk

waiters=${SMALL:+160}
waiters=${waiters:-300}
bad_disk() { # RULE...: none: it is well
	printf '%s\n' "$@" >"$T/rules"
}
has_ended() { # a zombie has
	local state
	state=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -c1)
	[ -z "$state" ] || [[ $state == [ZX] ]]
}
# So many wait, of whom 128 have a request.
crowd_is() {
	local room
	ask_figures "$CLIENT_PID" "$T/mnt.log" 'wait for room'
	room=$(sed -n 's/.*wait for room \([0-9]*\) .*/\1/p' <<<"$figures")
	[ "${room:-0}" -ge $(($1 - 128)) ]
}
looks_answer() {
	timeout 30 df "$M" >"$T/df" || fail "df failed or hung: $?"
	grep -q "$M" "$T/df"
	timeout 30 stat -c %F "$M" >"$T/stat" || fail "stat hung"
	equal "$(cat "$T/stat")" directory "the root"
}
kill_and_see() { # PID...
	local pid
	kill -KILL "$@"
	for pid; do
		wait_until "the end of killed process $pid" has_ended "$pid"
	done
}

bad_disk ""
AS_USER=(env "LD_PRELOAD=$PRELOAD" "BAD_DISK=$T/rules")
start_server --staging 4M
AS_USER=()
M=$T/mnt
mount_at "$M"
for ((i = 0; i < waiters; i++)); do
	head -c 20000 /dev/urandom >"$T/file.$i"
	cp "$T/file.$i" "$M/file.$i"
done

# ---- readers -----------------------------------------------------------------------

fds=() crowd=()
for ((i = 0; i < waiters; i++)); do
	exec {fd}<"$M/file.$i"
	fds+=("$fd")
done
bad_disk "read /data/ hang"
for ((i = 0; i < waiters; i++)); do
	cat <&"${fds[$i]}" >"$T/read.$i" 2>/dev/null &
	crowd+=($!)
done
PIDS+=("${crowd[@]}")
wait_until "the crowd" crowd_is "$waiters"
looks_answer
kill_and_see "${crowd[@]:0:5}" "${crowd[@]: -5}"
looks_answer
bad_disk ""
for ((i = 5; i < waiters - 5; i++)); do
	wait_for_end "${crowd[$i]}" || fail "reader $i failed: $?"
	cmp "$T/file.$i" "$T/read.$i"
done
for fd in "${fds[@]}"; do
	exec {fd}<&-
done
say "ok: readers"

# ---- who syncs ----------------------------------------------------------------------

start_holder a "$M/locked"
order a "posix w 0 10" ok
bad_disk "sync /store/ hang"
crowd=()
for ((i = 0; i < waiters; i++)); do
	dd if="$T/file.$i" of="$M/file.$i" conv=fsync,notrunc status=none &
	crowd+=($!)
done
PIDS+=("${crowd[@]}")
wait_until "the crowd" crowd_is "$waiters"
looks_answer
# Also who closes a file by that, with a lock or without one.
kill_and_see "$holder"
kill_and_see "${crowd[@]:0:5}" "${crowd[@]: -5}"
bad_disk ""
for ((i = 5; i < waiters - 5; i++)); do
	wait_for_end "${crowd[$i]}" || fail "writer $i failed: $?"
done
start_holder b "$M/locked"
order b "posix w 0 10 wait" ok
end_holder b
say "ok: who syncs"

# ---- softly ---------------------------------------------------------------------------

# Also who was told that he must wait (QUEUED): the server has no memory left.
soft=40
for ((i = 0; i < soft; i++)); do
	head -c 1M /dev/zero >"$M/large.$i"
done
hard=$CLIENT_PID
mount_at "$T/soft" soft,timeo=3
bad_disk "read /data/ hang"
crowd=()
for ((i = 0; i < soft; i++)); do
	cat "$T/soft/large.$i" >/dev/null 2>"$T/said.$i" &
	crowd+=($!)
done
PIDS+=("${crowd[@]}")
for ((i = 0; i < soft; i++)); do
	status=0
	wait_for_end "${crowd[$i]}" || status=$?
	equal $status 1 "status of reader $i on a soft mount"
	grep -q "Input/output error" "$T/said.$i" ||
		fail "reader $i said: $(cat "$T/said.$i")"
done
bad_disk ""
cmp "$T/file.0" "$T/soft/file.0"
umount_at "$T/soft" "$CLIENT_PID"
CLIENT_PID=$hard
say "ok: softly"

# ---- umount ---------------------------------------------------------------------------

bad_disk "any /store/ hang"
crowd=()
for ((i = 0; i < waiters; i++)); do
	dd if="$T/file.$i" of="$M/file.$i" conv=fsync,notrunc status=none \
		2>/dev/null &
	crowd+=($!)
done
PIDS+=("${crowd[@]}")
wait_until "the crowd" crowd_is "$waiters"
timeout 30 "$RDMAFS" umount -f -l "$M" || fail "umount -f failed or hung: $?"
for pid in "${crowd[@]}"; do
	wait_until "the end of a writer" has_ended "$pid"
done
status=0
wait_for_end "$CLIENT_PID" || status=$?
[ $status -lt 128 ] || fail "the client was ended by signal $((status - 128))"
bad_disk ""
stop_server
say "ok: unmounted by force"
