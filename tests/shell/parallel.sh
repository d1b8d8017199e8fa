#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Eight processes at once: in files of their own, in one file, in one directory.
. "$(dirname "$0")/lib.sh"

serve_and_mount
mib=8
head -c "${mib}M" /dev/urandom >"$T/source"
want=$(sum_of "$T/source")
mkdir "$M/names"
: >"$M/shared"

work() { # NUMBER
	local i
	cp "$T/source" "$M/own.$1"
	equal "$(sum_of "$M/own.$1")" "$want" "own file of $1"
	# Each its own region of the shared file, from the last block down.
	for ((i = mib - 1; i >= 0; i--)); do
		dd if="$T/source" of="$M/shared" bs=1M count=1 skip=$i \
			seek=$(($1 * mib + i)) conv=notrunc status=none
	done
	for ((i = 0; i < 200; i++)); do
		: >"$M/names/$1.$i"
		mv "$M/names/$1.$i" "$M/names/$1.$i.moved"
		[ $((i % 2)) -eq 0 ] || rm "$M/names/$1.$i.moved"
	done
	# Only one of the eight may win.
	mkdir "$M/winner" 2>/dev/null && printf '%s\n' "$1" >>"$T/winners"
	return 0
}

workers=()
for n in 0 1 2 3 4 5 6 7; do
	(work $n) &
	workers+=($!)
done
for pid in "${workers[@]}"; do
	wait "$pid" || fail "a worker ended with status $?"
done
for n in 0 1 2 3 4 5 6 7; do
	cmp -n $((mib << 20)) "$T/source" "$M/shared" 0 $((n * mib << 20))
done
equal "$(stat -c %s "$M/shared")" $((8 * mib << 20)) "size of the shared file"
equal "$(ls "$M/names" | wc -l)" 800 "names that stay"
equal "$(wc -l <"$T/winners")" 1 "processes that made one directory"
umount_at "$M"
stop_server
