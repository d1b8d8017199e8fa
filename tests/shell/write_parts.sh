#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Large writes go in parts that are in flight together, and have the right bytes
# whatever their offset and size; appends and synchronous writes go whole, and
# with no_pipeline all do.
. "$(dirname "$0")/lib.sh"

mount_parts() { # OPTIONS
	mount_at "$M" "$1"
	in_parts=0
}

# Writes that went in parts, says the client.
count_parts() {
	ask_figures "$CLIENT_PID" "$T/mnt.log" 'in parts'
	sed -n 's/.*in parts \([0-9]*\).*/\1/p' <<<"$figures" | head -n 1
}

# more_parts TEST NUMBER: since the last time, [ MORE TEST NUMBER ].
more_parts() {
	local now
	now=$(count_parts)
	test $((now - in_parts)) "$1" "$2" ||
		fail "$((now - in_parts)) more writes went in parts, not $1 $2"
	in_parts=$now
}

write_odd() { # SIZE OFFSET [OFLAG]
	for file in "$T/odd" "$M/odd"; do
		dd if="$T/source" of="$file" bs="$1" count=1 status=none \
			conv=notrunc seek="$2"B ${3:+oflag="$3"}
	done
}

M=$T/mnt
start_server
head -c 8M /dev/urandom >"$T/source"

for part in 64K 256K; do
	mount_parts "write_part=$part"
	rm -f "$T/odd" "$M/odd"
	for ((i = 0; i < 12; i++)); do
		write_odd $((1048576 - i * 40961)) $((i * i * 77773))
		write_odd 1048576 $((i * 4096 * 99)) direct
		write_odd $((700001 + i)) $((3000017 - i * 4099))
	done
	cmp "$T/odd" "$M/odd"
	more_parts -ge 24
	umount_at "$M"
	mount_at "$M"
	cmp "$T/odd" "$M/odd"
	umount_at "$M"
	say "ok: odd writes in parts of $part"
done

mount_parts ''
dd if="$T/source" of="$M/log" bs=1M oflag=append conv=notrunc status=none
more_parts -eq 0
cmp "$T/source" "$M/log"
dd if="$T/source" of="$M/safe" bs=1M oflag=sync status=none
more_parts -eq 0
dd if="$T/source" of="$M/safe" bs=1M oflag=dsync status=none
more_parts -eq 0
dd if="$T/source" of="$M/plain" bs=1M status=none
more_parts -ge 4
umount_at "$M"
say "ok: appends and synchronous writes are whole"

mount_parts no_pipeline
dd if="$T/source" of="$M/plain" bs=1M conv=notrunc status=none
more_parts -eq 0
cmp "$T/source" "$M/plain"
umount_at "$M"
stop_server
