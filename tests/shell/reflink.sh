#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Where the store's file system shares blocks (here xfs), a copy that the server makes
# takes no room; what is then written to one of the two is not seen in the other.
. "$(dirname "$0")/lib.sh"

command -v mkfs.xfs >/dev/null || skip "mkfs.xfs is not installed"
[[ $(cp --version) =~ ^cp.*\ (9|[1-9][0-9])\. ]] ||
	skip "this cp does not ask for copy_file_range()"
enter_namespace
truncate -s 1G "$T/disk"
mkfs.xfs -q -m reflink=1 "$T/disk" || skip "this mkfs.xfs knows no reflink"
mkdir "$T/store"
mount -o loop "$T/disk" "$T/store" || skip "can't mount xfs by a loop device"

used() { # in KiB
	sync -f "$T/store"
	df --output=used "$T/store" | tail -n 1
}
serve_and_mount
head -c 100M /dev/urandom >"$M/from"
sum=$(sum_of "$M/from")
before=$(used)
cp "$M/from" "$M/to"
more=$(($(used) - before))
[ "$more" -lt 10240 ] || fail "a copy of 100 MiB took $more KiB"
equal "$(sum_of "$M/to")" "$sum" "the copy"
say "ok: a copy took $more KiB"

dd if=/dev/zero of="$M/to" bs=1M count=1 seek=50 conv=notrunc status=none
equal "$(sum_of "$M/from")" "$sum" "what was copied from"
cp "$M/from" "$M/to"
truncate -s 1M "$M/from"
equal "$(sum_of "$M/to")" "$sum" "the copy of what was cut"
umount_at "$M"
stop_server
umount "$T/store"
