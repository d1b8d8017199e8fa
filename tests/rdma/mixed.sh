#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernel's siw and our iwarp understand each other, whoever serves: clients
# with and without the device on one listener see the same files.
. "$(dirname "$0")/guest.sh"

[ "$RDMA_DEVICE" = siw ] ||
	skip "a client without a device can't reach $RDMA_DEVICE"
A=$T/a
B=$T/b

# compare WRITER READER: what one wrote the other reads.
compare() {
	cp -a "$T/source" "$1/tree"
	cp "$T/big" "$1/big"
	diff -r "$T/source" "$2/tree"
	cmp "$T/big" "$2/big"
	rm -r "$2/tree" "$2/big"
	[ ! -e "$1/tree" ] || fail "a removed tree is still there"
}

mkdir "$T/source"
cp -a /usr/include/linux/nf*.h "$T/source/"
head -c 1300001 /dev/urandom >"$T/big"

for served_by in verbs iwarp; do
	start_server --listen "$served_by://$RDMA_VM_ADDRESS:0" --insecure
	host=${ADDRESS#*:}
	ADDRESS=verbs:$host
	mount_at "$A"
	pid_a=$CLIENT_PID
	ADDRESS=iwarp:$host
	mount_at "$B"
	pid_b=$CLIENT_PID
	grep -q "over verbs" "$T/a.log" || fail "not over verbs"
	grep -q "over iwarp" "$T/b.log" || fail "not over iwarp"
	compare "$A" "$B"
	compare "$B" "$A"
	umount_at "$A" "$pid_a"
	umount_at "$B" "$pid_b"
	stop_server
	rm "$T/a.log" "$T/b.log"
done
