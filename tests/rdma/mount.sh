#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A file system over verbs: a tree and large files are the same there and back.
. "$(dirname "$0")/guest.sh"

# Server and client on one device, the data, nothing cached.
start_server --listen "verbs://$RDMA_VM_ADDRESS:0" --insecure
M=$T/mnt
mount_at "$M"
grep -q "over verbs" "$T/mnt.log" || fail "not over verbs"

# A tree: all of them are 140 files.
tree=_ipv
[ -z "$LONG" ] || tree=
mkdir "$T/source"
cp -a /usr/include/linux/netfilter$tree* "$T/source/"
cp -a "$T/source" "$M/tree"
diff -r "$T/source" "$M/tree"

# Blocks of every kind, across the sizes of grants, and odd ends.
head -c 4000001 /dev/urandom >"$T/big"
cp "$T/big" "$M/big"
cmp "$T/big" "$M/big"
for size in 1 511 4097 65536 262145 1048576; do
	head -c "$size" "$T/big" >"$T/part"
	dd if="$T/part" of="$M/part" bs=1M status=none
	cmp "$T/part" "$M/part"
done
dd if="$T/big" of="$M/direct" bs=128k count=16 oflag=direct status=none
dd if="$M/direct" of="$T/direct" bs=128k iflag=direct status=none
cmp -n $((16 * 128 * 1024)) "$T/big" "$T/direct"

# A crowd, more than one session has slots: each message finds a Receive that was
# posted before it.  Where one does not, rxe counts it; elsewhere the connection ends.
CROWD=48 EACH=6
rnr_errors() {
	{ cat /sys/class/infiniband/"$RDMA_DEVICE"0/ports/1/hw_counters/*_rnr_err \
		2>/dev/null || true; } | awk '{ sum += $1 } END { print sum + 0 }'
}
before=$(rnr_errors)
mkdir "$M/crowd"
crowd=()
for ((i = 0; i < CROWD; i++)); do
	(
		for ((j = 0; j < EACH; j++)); do
			echo "$i $j" >"$M/crowd/$i.$j"
			read -r line <"$M/crowd/$i.$j"
			[ "$line" = "$i $j" ]
		done
	) &
	crowd+=($!)
done
for pid in "${crowd[@]}"; do
	wait "$pid" || fail "one of the crowd did not read what it wrote"
done
[ "$(rnr_errors)" = "$before" ] || fail "Receives were missing: $before, then $(rnr_errors)"
[ "$(grep -c "connected to" "$T/mnt.log")" = 1 ] || fail "the mount had to connect again"

# Nothing cached: a new mount.
umount_at "$M"
mount_at "$M"
cmp "$T/big" "$M/big"
diff -r "$T/source" "$M/tree"
rm -r "$M/tree" "$M/crowd" "$M/big" "$M/part" "$M/direct"
umount_at "$M"
stop_server
