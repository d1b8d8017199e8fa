#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon knows an inode as long as the kernel does, and not longer: its count
# comes back to what it was when the kernel has forgotten them, whatever calls told the
# kernel of them, also those whose callers were killed meanwhile.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "only root can have a kernel forget"

COUNT=${LONG:+20000}
COUNT=${COUNT:-1000}
ROUNDS=${LONG:+20}
ROUNDS=${ROUNDS:-4}

start_server
M=$T/mnt
mount_at "$M"
has_daemon

# What the daemon knows is in $inodes and $opens.
ask_known() {
	ask_figures "$daemon" "$T/mnt.log" 'open files'
	inodes=$(sed -n 's/.*; inodes \([0-9]*\) (room.*/\1/p' <<<"$figures")
	opens=$(sed -n 's/.*, open files \([0-9]*\).*/\1/p' <<<"$figures")
}
knows() { # INODES OPENS
	ask_known
	[ "$inodes" -eq "$1" ] && [ "$opens" -eq "$2" ]
}
# A remount drops all names that nobody uses from the cache, and with them inodes.
forget() {
	mount -i -o remount,rw "$M"
}

forget
wait_until "the root alone" knows 1 0
mkdir "$M/dir"
for ((round = 0; round < ROUNDS; round++)); do
	# Made, looked up, listed with attributes, linked, moved and opened.
	(
		cd "$M/dir"
		seq -f 'file.%.0f' 1 "$COUNT" | xargs touch
		seq -f 'file.%.0f' 1 "$COUNT" | xargs stat >/dev/null
		ls -lR . >/dev/null
		ln file.1 link.1
		mv file.2 moved.2
		ln -s nowhere symbolic
		readlink symbolic >/dev/null
		mkfifo pipe
		! stat missing 2>/dev/null || exit 1
		! mkdir file.3 2>/dev/null || exit 1
		cat file.4
	)
	exec 3<"$M/dir/file.5"
	# The root, the folder, the files, a link of its own and a pipe.
	wait_until "all to be known" knows $((COUNT + 4)) 1
	forget
	# What is open keeps its folders, up to the root.
	wait_until "what is open to be known" knows 3 1
	exec 3<&-
	forget
	wait_until "nothing but the root to be known" knows 1 0

	# Removed while the kernel knows them.
	ls -lR "$M" >/dev/null
	rm -r "$M/dir"/*
	wait_until "what was removed to be forgotten" knows 2 0
done

# Callers that are killed in the middle, with a server that is slow to answer.
mkdir "$M/dir/many"
seq -f "$M/dir/many/file.%.0f" 1 200 | xargs touch
forget
for ((round = 0; round < ROUNDS * 5; round++)); do
	kill -STOP "$SERVER_PID"
	find "$M/dir" -ls >/dev/null 2>&1 &
	finder=$!
	(cd "$M/dir/many" && exec stat file.* new.*) >/dev/null 2>&1 &
	looker=$!
	touch "$M/dir/many/made.$round" &
	maker=$!
	PIDS+=("$finder" "$looker" "$maker")
	kill -CONT "$SERVER_PID"
	[ $((round % 3)) -eq 0 ] || pause
	kill -KILL "$finder" "$looker" "$maker" 2>/dev/null || true
	wait "$finder" "$looker" "$maker" 2>/dev/null || true
done
forget
wait_until "nothing of killed callers to be known" knows 1 0
umount_at "$M"
stop_server
