#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The server's disk gets full in the middle of a copy: the writer hears ENOSPC,
# nothing that was there is lost, and when room is made all goes on.
. "$(dirname "$0")/lib.sh"
enter_namespace

mkdir "$T/disk"
mount -t tmpfs -o size=256m rdmafs-test "$T/disk" ||
	skip "can't mount a small tmpfs"
start_server --store "$T/disk/store" --reserve 64M
M=$T/mnt
mount_at "$M"
mkdir "$M/before"
cp -r /usr/include/linux "$M/before/"
head -c 8M /dev/urandom >"$T/block"
cp "$T/block" "$M/before/block"

filled=0
while cp "$T/block" "$M/fill.$filled" 2>"$T/stderr"; do
	filled=$((filled + 1))
	[ $filled -lt 64 ] || fail "512 MiB fit on a disk of 256 MiB"
done
grep -q 'No space left on device' "$T/stderr"
[ $filled -ge 4 ] || fail "full after $filled files"

# Also past the page cache, and for a name.
if dd if="$T/block" of="$M/direct" bs=1M oflag=direct 2>"$T/stderr"; then
	fail "a direct write fitted on a full disk"
fi
grep -q 'No space left on device' "$T/stderr"
# Of what it says it has written nothing is missing.
copied=$(sed -n 's/^\([0-9]*\) bytes.*/\1/p' "$T/stderr")
cmp -n "$copied" "$T/block" "$M/direct"

# The last bytes, too; then there is no room for a name.
for size in 256K 32K 4K; do
	while head -c $size "$T/block" >>"$M/fill.last" 2>/dev/null; do :; done
done
names=0
while mkdir "$M/name.$names" 2>/dev/null; do
	names=$((names + 1))
	[ $names -lt 2000 ] || fail "2000 names fit on a full disk"
done
full() { # COMMAND...
	must_fail 1 'No space left on device' "$@"
}
full mkdir "$M/directory"
full touch "$M/new"
full ln -s target "$M/link"
full ln "$M/before/block" "$M/hard"
[ -z "$(find "$M" -name new -o -name directory -o -name link -o -name hard)" ] ||
	fail "what was refused is there"
# Moved, or not: it has one name.
mv "$M/before/block" "$M/moved" 2>/dev/null || true
equal "$(find "$M" -name moved -o -name block | wc -l)" 1 "names of a moved file"
[ ! -e "$M/moved" ] || mv -T "$M/moved" "$M/before/block"
printf 'x' | dd of="$M/before/block" bs=1 conv=notrunc status=none ||
	fail "a byte that is there can't be written over"
printf 'x' | dd of="$T/block.x" bs=1 status=none
head -c 1 "$M/before/block" | cmp - "$T/block.x"
head -c 1 "$T/block" | dd of="$M/before/block" bs=1 conv=notrunc status=none

# What was there is whole, and df says how it is.
diff -r /usr/include/linux "$M/before/linux"
cmp "$T/block" "$M/before/block"
for ((i = 0; i < filled; i++)); do
	cmp "$T/block" "$M/fill.$i"
done
room=$(($(stat -f -c '%a * %S' "$M")))
[ $room -lt $((8 << 20)) ] || fail "statfs tells of $room bytes free"

# Removing makes room, at once.
rm "$M"/fill.* "$M/direct"
room=$(($(stat -f -c '%a * %S' "$M")))
[ $room -ge $((filled * (8 << 20))) ] ||
	fail "statfs tells of $room bytes free after $filled * 8 MiB were removed"
for round in 1 2 3; do
	for ((i = 0; i < filled; i++)); do
		cp "$T/block" "$M/again.$i" || fail "no room in round $round"
	done
	cmp "$T/block" "$M/again.0"
	rm "$M"/again.*
done
diff -r /usr/include/linux "$M/before/linux"
umount_at "$M"
stop_server
umount "$T/disk"
