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

serve_from_bad_disk --staging 4M
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
umount_by_force
for pid in "${crowd[@]}"; do
	wait_until "the end of a writer" has_ended "$pid"
done
wait_for_client
bad_disk ""
stop_server
say "ok: unmounted by force"
