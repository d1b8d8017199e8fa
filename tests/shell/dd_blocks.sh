#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Large files written and read by dd, in all block sizes, through the page cache
# and past it, have the right bytes.  LONG=1: 4 GiB each.
. "$(dirname "$0")/lib.sh"

mib=64
[ -z "$SMALL" ] || mib=16
[ -z "$LONG" ] || mib=4096
serve_and_mount

head -c "${mib}M" /dev/urandom >"$T/source"
want=$(sum_of "$T/source")

check() { # FILE WHAT
	equal "$(stat -c %s "$1")" $((mib * 1048576)) "$2: size"
	equal "$(sum_of "$1")" "$want" "$2: bytes"
}

for block in 4K 128K 1M; do
	for direct in '' direct; do
		what="$block ${direct:-buffered}"
		dd if="$T/source" of="$M/file" bs=$block status=none \
			conv=fsync ${direct:+oflag=direct}
		# Forget the pages, so that the server is asked.
		dd if="$M/file" iflag=nocache count=0 status=none
		dd if="$M/file" of="$T/back" bs=$block status=none \
			${direct:+iflag=direct}
		check "$T/back" "$what"
		check "$M/file" "$what, read by another"
		# Over what is there, from the middle on.
		dd if="$T/source" of="$M/file" bs=$block status=none \
			conv=notrunc,fsync ${direct:+oflag=direct} \
			skip=$((mib << 19))B seek=$((mib << 19))B
		check "$M/file" "$what, half written again"
		rm "$M/file" "$T/back"
		say "ok: $what"
	done
done

# Odd offsets and sizes, against a local file.
for step in 1 2 3 4 5 6 7 8; do
	at=$((step * 104729 + step))
	size=$((step * 65537 + 13))
	for file in "$T/odd" "$M/odd"; do
		dd if="$T/source" of="$file" bs=$size count=1 status=none \
			conv=notrunc seek=${at}B
	done
done
cmp "$T/odd" "$M/odd"
truncate -s 300001 "$T/odd" "$M/odd"
truncate -s 900001 "$T/odd" "$M/odd"
cmp "$T/odd" "$M/odd"
umount_at "$M"
stop_server
