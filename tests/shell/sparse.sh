#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A file of 100 GiB with three blocks takes the room of three blocks, and its
# holes read as zeroes and are found as holes.
. "$(dirname "$0")/lib.sh"

serve_and_mount
head -c 65536 /dev/urandom >"$T/block"
gib=$((1 << 30))
file=$M/sparse
places=(0 $((50 * gib + 4096)) $((100 * gib - 65536)))
for at in "${places[@]}"; do
	dd if="$T/block" of="$file" bs=65536 seek="${at}B" conv=notrunc \
		status=none
done
sync -f "$file"
equal "$(stat -c %s "$file")" $((100 * gib)) "size"
blocks=$(stat -c %b "$file")
[ "$blocks" -ge 384 ] && [ "$blocks" -le 1024 ] ||
	fail "three blocks of 64 KiB take $blocks sectors"
stored=$(du -sk "$T/store" | cut -f1)
[ "$stored" -lt 200000 ] || fail "the store grew to $stored KiB"
for at in "${places[@]}"; do
	cmp -n 65536 "$T/block" "$file" 0 "$at"
done

# Holes are zeroes, at their edges too.
head -c 4096 /dev/zero >"$T/zero"
for at in 65536 $((50 * gib)) $((50 * gib + 4096 + 65536)) \
	$((100 * gib - 65536 - 4096)); do
	cmp -n 4096 "$T/zero" "$file" 0 "$at"
done

# SEEK_DATA and SEEK_HOLE as cp asks them: the copy is sparse and quick.
timeout 120 cp --sparse=auto "$file" "$T/copy"
equal "$(stat -c %s "$T/copy")" $((100 * gib)) "size of the copy"
for at in "${places[@]}"; do
	cmp -n 65536 "$T/block" "$T/copy" 0 "$at"
done

fallocate --punch-hole --offset 0 --length 65536 "$file"
cmp -n 65536 "$file" /dev/zero
[ "$(stat -c %b "$file")" -lt "$blocks" ] || fail "the punched hole takes room"
fallocate --keep-size --offset 0 --length 1048576 "$file"
fallocate --offset 0 --length 1048576 "$M/reserved"
equal "$(stat -c %s "$M/reserved")" 1048576 "size after fallocate"
cmp -n 1048576 "$M/reserved" /dev/zero

# A copy is the server's work: the data don't come here.
moved=0
count_moved() {
	ask_figures "$CLIENT_PID" "$T/mnt.log" ' bytes, written [0-9]* bytes'
	moved=$(sed -n 's/.*read \([0-9]*\) bytes, written \([0-9]*\) bytes.*/\1 + \2/p' \
		<<<"$figures")
	moved=$((moved))
}
if [[ $(cp --version) =~ ^cp.*\ (9|[1-9][0-9])\. ]]; then
	head -c 40000001 /dev/urandom >"$M/from"
	count_moved
	before=$moved
	cp "$M/from" "$M/to"
	count_moved
	[ $((moved - before)) -lt 4000000 ] ||
		fail "a copy moved $((moved - before)) bytes"
	cmp "$M/from" "$M/to"
fi
umount_at "$M"
stop_server
