#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hundreds of programs wait for a server that says nothing, with writes that take all
# buffers: df, stat and umount answer, whoever is killed ends, also under another
# daemon; and when the server is back each is served.
. "$(dirname "$0")/lib.sh"

readers=${SMALL:+160}
readers=${readers:-300}
writers=40
M=$T/mnt
start_server
LISTEN=$ADDRESS
mount_at "$M" memory=16M
printf text >"$M/file"
head -c 1M /dev/urandom >"$T/block"
stat -f "$M" >/dev/null

is_lost() {
	[ "$(grep -c 'lost the server' "$T/mnt.log")" -ge "$1" ]
}
crowd=()
start_readers() {
	local i
	for ((i = 0; i < readers; i++)); do
		cat "$M/file" >"$T/read.$i" 2>/dev/null &
		crowd+=($!)
	done
	PIDS+=("${crowd[@]}")
}

fds=()
for ((i = 0; i < writers; i++)); do
	exec {fd}>"$M/written.$i"
	fds+=("$fd")
done

# ---- it is there, and says nothing ------------------------------------------------

kill -STOP "$SERVER_PID"
writing=()
for ((i = 0; i < writers; i++)); do
	dd if="$T/block" bs=1M count=1 status=none >&"${fds[$i]}" &
	writing+=($!)
done
PIDS+=("${writing[@]}")
start_readers
wait_until "the crowd" crowd_is $((readers + writers))
looks_answer
# The last ones that came, and one that has a buffer to write.
kill_and_see "${crowd[@]: -10}"
kill_and_see "${writing[$((writers - 1))]}"
say "ok: the server is silent"

# ---- it is gone ---------------------------------------------------------------------

kill_server
wait_until "the loss" is_lost 1
looks_answer
kill_and_see "${crowd[@]:readers-20:10}"
left=$((readers - 20 + writers - 1))
wait_until "those that are left" crowd_is $left
say "ok: the server is gone"

# ---- so is the daemon -----------------------------------------------------------------

killed=$(daemon_of "$CLIENT_PID")
kill -KILL "$killed"
wait_until "another daemon" is_another "$killed"
wait_until "the crowd, in another daemon" crowd_is $left
looks_answer
kill_and_see "${crowd[@]:readers-30:10}"
say "ok: another daemon"

# ---- it is back -------------------------------------------------------------------------

start_server --listen "$LISTEN"
for ((i = 0; i < readers - 30; i++)); do
	wait_for_end "${crowd[$i]}" || fail "reader $i failed: $?"
	equal "$(cat "$T/read.$i")" text "what reader $i has read"
done
for ((i = 0; i < writers - 1; i++)); do
	wait_for_end "${writing[$i]}" || fail "writer $i failed: $?"
	cmp "$T/block" "$M/written.$i"
done
for fd in "${fds[@]}"; do
	exec {fd}>&-
done
wait_until "room again" crowd_is 0
say "ok: the server is back"

# ---- by force -------------------------------------------------------------------------------

losses=$(grep -c 'lost the server' "$T/mnt.log")
kill_server
wait_until "the loss" is_lost $((losses + 1))
crowd=()
start_readers
wait_until "the crowd" crowd_is "$readers"
umount_by_force
for pid in "${crowd[@]}"; do
	wait_until "the end of a reader" has_ended "$pid"
done
wait_for_client
say "ok: unmounted by force"

# ---- softly ---------------------------------------------------------------------------------

start_server --listen "$LISTEN"
: >"$T/mnt.log"
mount_at "$M" soft,timeo=3
kill_server
wait_until "the loss" is_lost 1
crowd=()
# Those who look for one name go one by one in the kernel.
for ((i = 0; i < readers; i++)); do
	cat "$M/file.$i" 2>/dev/null &
	crowd+=($!)
done
PIDS+=("${crowd[@]}")
for pid in "${crowd[@]}"; do
	status=0
	wait_for_end "$pid" || status=$?
	equal $status 1 "status of a reader on a soft mount"
done
umount_at "$M"
say "ok: soft"
