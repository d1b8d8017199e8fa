#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The server dies and a soft mount gives up: everything on it ends with EIO within
# a bound, nothing hangs, unmounting works, and a new server has all that was
# acknowledged.  server_comes_back.sh has what a hard mount does.
. "$(dirname "$0")/lib.sh"

start_server
M=$T/mnt
mount_at "$M" soft,timeo=3
cp -r /usr/include/linux "$M/tree"
printf 'kept\n' >"$M/kept"
sync -f "$M/kept"
exec 3<"$M/kept"

# One writer is in the middle of it.
(
	trap 'exit 0' TERM
	i=0
	while printf '%d\n' $i >"$M/counter.new" &&
		mv "$M/counter.new" "$M/counter.$i"; do
		printf '%d\n' $i >"$T/acknowledged"
		i=$((i + 1))
	done 2>"$T/writer.err"
) &
writer=$!
PIDS+=("$writer")
is_busy() {
	local count
	count=$(cat "$T/acknowledged" 2>/dev/null)
	[ "${count:-0}" -ge 50 ]
}
wait_until "the writer" is_busy
kill_server

started=$SECONDS
status=0
timeout 60 cat "$M/tree/fs.h" >/dev/null 2>"$T/stderr" || status=$?
equal $status 1 "status of cat"
grep -q 'Input/output error' "$T/stderr"
[ $((SECONDS - started)) -ge 2 ] || fail "it did not even wait"
status=0
timeout 60 ls "$M/tree" >/dev/null 2>&1 || status=$?
[ $status -ne 0 ] && [ $status -ne 124 ] || fail "ls ended with $status"
wait_for_end "$writer" || fail "the writer ended with $?"
grep -q 'Input/output error' "$T/writer.err"
[ $((SECONDS - started)) -lt 40 ] || fail "EIO took $((SECONDS - started)) s"
exec 3<&-
"$RDMAFS" umount "$M"
! is_mounted "$M" || fail "still mounted"
wait_for_client

start_server
mount_at "$M"
diff -r /usr/include/linux "$M/tree"
equal "$(cat "$M/kept")" kept "bytes that were synced"
last=$(cat "$T/acknowledged")
for ((i = 0; i <= last; i++)); do
	equal "$(cat "$M/counter.$i")" "$i" "acknowledged file $i"
done
umount_at "$M"
stop_server
