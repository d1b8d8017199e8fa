#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Files that are opened for writing only go past the page cache: who has the file
# open for reading sees each write at once, also if the times are set back, and
# writers on one mount take turns.
. "$(dirname "$0")/lib.sh"

serve_and_mount
head -c 1M /dev/urandom >"$T/old"
head -c 1M /dev/urandom >"$T/new"

# Pages are cached when the file is written, in the middle and as a whole.
cp "$T/old" "$M/file"
cp "$T/old" "$T/want"
touch -d '2020-01-01' "$M/file"
# One for each round, for it is read to the end.
exec 3<"$M/file" 4<"$M/file" 5<"$M/file" 6<"$M/file"
fd=3
for at in 0 4096 100001 700000; do
	cmp "$M/file" "$T/want"
	for file in "$M/file" "$T/want"; do
		dd if="$T/new" of="$file" bs=3333 count=40 status=none \
			conv=notrunc seek="$at"B
	done
	touch -d '2020-01-01' "$M/file"
	cmp - "$T/want" <&$fd || fail "an open file has old pages"
	fd=$((fd + 1))
	cmp "$M/file" "$T/want" || fail "the file has old pages"
done
exec 3<&- 4<&- 5<&- 6<&-
: >"$M/file"
equal "$(stat -c %s "$M/file")" 0 "size of the emptied file"
equal "$(sum_of "$M/file")" "$(sum_of /dev/null)" "the emptied file"
say "ok: readers see what a writer wrote"

# What splice and copies between descriptors do.
cat "$T/new" | dd of="$M/piped" bs=64K status=none
cmp "$T/new" "$M/piped"
cp --sparse=always "$T/new" "$M/copied"
cmp "$T/new" "$M/copied"
install -m 600 "$M/copied" "$M/installed"
cmp "$T/new" "$M/installed"
say "ok: copies"

rounds=20
[ -z "$SMALL" ] || rounds=5
for ((i = 0; i < rounds; i++)); do
	dd if="$T/old" of="$M/turns" bs=1M count=1 conv=notrunc status=none &
	one=$!
	dd if="$T/new" of="$M/turns" bs=1M count=1 conv=notrunc status=none
	wait "$one"
	cmp -s "$M/turns" "$T/old" || cmp -s "$M/turns" "$T/new" ||
		fail "two writes on one mount are mixed"
done
say "ok: writers take turns"
umount_at "$M"
stop_server
