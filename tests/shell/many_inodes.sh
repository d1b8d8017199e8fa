#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A mount that has no room for another inode says so, and leaves nothing open at
# the server.
. "$(dirname "$0")/lib.sh"

start_server
N=$T/other
mount_at "$N"
other=$CLIENT_PID
M=$T/mnt
mount_at "$M" max_inodes=8

orphans() { # COUNT: files without a name that are kept open at the server
	ask_figures "$SERVER_PID" "$T/server.log" ' orphans'
	grep -q " $1 orphans" <<<"$figures"
}

# The root, and seven files that are held.
fds=()
for ((i = 0; i < 7; i++)); do
	exec {fd}>"$M/$i"
	fds+=("$fd")
done
for ((i = 0; i < 5; i++)); do
	status=0
	(printf x >"$M/more") 2>"$T/stderr" || status=$?
	equal $status 1 "status"
	grep -q 'Cannot allocate memory' "$T/stderr" ||
		fail "it said: $(cat "$T/stderr")"
done
rm "$N/more"
wait_until "all opens of it to be released" orphans 0
printf x >&"$fd"
rm "$N/0"
wait_until "the one that is open to be kept" orphans 1

for fd in "${fds[@]}"; do
	exec {fd}>&-
done
umount_at "$M"
umount_at "$N" "$other"
stop_server
