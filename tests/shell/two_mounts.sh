#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is done on one mount is seen on the other at once: no time passes here
# between the two but that of starting a program.
. "$(dirname "$0")/lib.sh"

start_server
mount_two

for ((i = 0; i < 50; i++)); do
	printf 'text %d\n' $i >"$A/file"
	equal "$(cat "$B/file")" "text $i" "data"
	# Same size, same time: only the bytes tell.
	printf 'more %d\n' $i >"$T/new"
	touch -r "$B/file" "$T/new"
	cp -p "$T/new" "$B/file"
	equal "$(cat "$A/file")" "more $i" "data of the same size and time"
done

mkdir "$A/dir"
[ -d "$B/dir" ] || fail "mkdir is not seen"
mv "$B/dir" "$B/moved"
[ -d "$A/moved" ] && [ ! -e "$A/dir" ] || fail "mv is not seen"
chmod 700 "$A/moved"
equal "$(stat -c %a "$B/moved")" 700 "mode"
touch -d '2001-02-03 04:05:06 UTC' "$B/moved"
equal "$(stat -c %Y "$A/moved")" 981173106 "time"
rmdir "$A/moved"
[ ! -e "$B/moved" ] || fail "rmdir is not seen"
ln -s target "$A/link"
equal "$(readlink "$B/link")" target "link"
ln -sf other "$A/link"
equal "$(readlink "$B/link")" other "a link made again"

# A file that the other holds open grows and shrinks under its eyes.
printf '1234567890' >"$A/open"
exec 3<"$B/open"
equal "$(head -c 5 <&3)" 12345 "first half"
truncate -s 3 "$A/open"
equal "$(stat -L -c %s /proc/self/fd/3)" 3 "size after truncate"
printf 'abcdefghij' >"$A/open"
equal "$(stat -L -c %s /proc/self/fd/3)" 10 "size after write"
exec 3<&-

# Appends from both lose nothing and mix no line.
append() { # MOUNT NAME
	local n
	for ((n = 0; n < 300; n++)); do
		printf '%s %04d %s\n' "$2" $n 'a line that is not so short' \
			>>"$1/log"
	done
}
append "$A" a &
first=$!
append "$B" b &
second=$!
wait $first
wait $second
equal "$(wc -l <"$A/log")" 600 "lines"
cmp "$A/log" "$B/log"
equal "$(grep -cE '^[ab] [0-9]{4} a line that is not so short$' "$B/log")" 600 \
	"lines that are whole"
equal "$(grep '^a' "$A/log" | sort -c 2>&1)" "" "order of the lines of a"

# Large data, where the reader has the old pages cached.
for round in 1 2 3; do
	head -c 8M /dev/urandom >"$T/data"
	cp "$T/data" "$A/large"
	cmp "$T/data" "$B/large"
	cp "$T/data" "$B/large"
	cmp "$T/data" "$A/large"
done
umount_two
stop_server
