#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rdmafs tune over a device; a mount takes what it advises, and comes by the
# traffic class, the source and the GID that were asked for.
. "$(dirname "$0")/guest.sh"

port=7471

"$RDMAFS" tune --serve "$RDMA_VM_ADDRESS:$port" 2>"$T/serve.log" &
tune=$!
PIDS+=("$tune")
wait_until "the other end" is_ready_or_gone "$T/serve.log" "$tune"
grep -q "listening on verbs://" "$T/serve.log" || fail "not on verbs"

# No fabric is named: the device's route is taken.
"$RDMAFS" tune -s 2 "$RDMA_VM_ADDRESS:$port" >"$T/table" ||
	fail "rdmafs tune ended with $?"
cat "$T/table"
grep -q "^rdmafs tune: verbs://${RDMA_DEVICE}0 to" "$T/table" ||
	fail "not over the device"
for what in READ WRITE; do
	[ "$(grep -c "^$what " "$T/table")" -ge 18 ] || fail "$what: rows are missing"
done
if awk '/^(READ|WRITE) / && !($5 > 0 && $6 > 0) { n++ } END { exit !n }' \
	"$T/table"; then
	fail "a row without figures"
fi
grep -q "cq_count and cq_usec have no effect" "$T/table" ||
	fail "nothing about moderation"
kill -TERM "$tune"
wait_for_end "$tune" || fail "tune --serve ended with $?"

options=$(sed -n '/^Mount options/{n;s/^ *//p}' "$T/table")
[ -n "$options" ] || fail "no options"
options+=,tos=104,source=$RDMA_VM_ADDRESS,poll_us=20,log=debug
# The GID that has the address; those of siw are no addresses.
if [ "$RDMA_DEVICE" = rxe ]; then
	options+=,gid_index=1
fi
listen=verbs
if [ "$RDMA_DEVICE" = siw ]; then
	listen=iwarp
fi
start_server --listen "$listen://$RDMA_VM_ADDRESS:0" --insecure
ADDRESS=verbs:${ADDRESS#*:}
mount_at "$T/mnt" "$options"
head -c 3000001 /dev/urandom >"$T/data"
cp "$T/data" "$T/mnt/data"
cmp "$T/data" "$T/mnt/data"
if [ "$RDMA_DEVICE" = rxe ]; then
	grep -q "with GID index 1, traffic class 104" "$T/mnt.log" ||
		fail "not by this GID and class"
fi
grep -q "does not moderate completion events" "$T/mnt.log" ||
	fail "nothing about moderation"
umount_at "$T/mnt"

# What can't be is said.
if [ "$RDMA_DEVICE" = rxe ]; then
	must_fail 1 "no GID with index 99" "$RDMAFS" mount "$ADDRESS/data" \
		"$T/mnt" -f -o gid_index=99
else
	must_fail 1 "gid_index is for RoCE" "$RDMAFS" mount "$ADDRESS/data" \
		"$T/mnt" -f -o gid_index=1
fi
stop_server
