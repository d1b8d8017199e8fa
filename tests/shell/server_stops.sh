#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SIGTERM: the server finishes what it acknowledged, ends with status 0 in a
# bounded time although clients are there, and the next one has everything.
. "$(dirname "$0")/lib.sh"

start_server
M=$T/mnt
mount_at "$M" soft,timeo=3
head -c 64M /dev/urandom >"$T/data"
cp "$T/data" "$M/data"
(
	i=0
	while printf '%d\n' $i >"$M/file.$i"; do
		printf '%d\n' $i >"$T/acknowledged"
		i=$((i + 1))
	done 2>/dev/null
) &
writer=$!
PIDS+=("$writer")
is_busy() {
	[ "$(cat "$T/acknowledged" 2>/dev/null || echo 0)" -ge 100 ]
}
wait_until "the writer" is_busy
started=$SECONDS
stop_server
[ $((SECONDS - started)) -lt 20 ] || fail "stopping took too long"
wait_for_end "$writer" || true
"$RDMAFS" umount "$M"
wait_for_client

start_server
mount_at "$M"
cmp "$T/data" "$M/data"
last=$(cat "$T/acknowledged")
for ((i = 0; i <= last; i++)); do
	equal "$(cat "$M/file.$i")" "$i" "acknowledged file $i"
done
umount_at "$M"
stop_server
grep -qi 'error' "$T/server.log" && fail "the server complained"
exit 0
