#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tree of real files is the same after cp -a to the mount and back.
. "$(dirname "$0")/lib.sh"

serve_and_mount
source=/usr/include
if [ -z "$LONG" ]; then
	# A part of it, and beside it what /usr/include has not.
	source=$T/source
	mkdir -p "$source/empty"
	cp -a /usr/include/linux "$source/"
	[ -n "$SMALL" ] || cp -a /usr/include/*-linux-gnu "$source/"
	ln "$source/linux/fs.h" "$source/second name"
	ln -s nowhere "$source/dangling"
	mkfifo -m 600 "$source/fifo"
	: >"$source/nothing"
	printf 'x' >"$source/odd"
	chmod 6711 "$source/odd"
	touch -d '1969-07-20 20:17:40.123456789 UTC' "$source/odd"
	chmod 3777 "$source/empty"
	# Its time is the last thing that changes.
	touch -d '2040-01-01 UTC' "$source"
fi

# Names, types, modes, owners, times, sizes and link counts of a tree.
listing() {
	(cd "$1" && find . -type d -printf '%p %y %m %U %G %T@\n' \
		-o -printf '%p %y %m %U %G %T@ %s %n %l\n' | sort)
}

# diff would read a FIFO.
same() {
	diff -r --no-dereference --exclude=fifo "$@"
}

cp -a $source "$M/tree"
same $source "$M/tree"
listing $source >"$T/want"
listing "$M/tree" >"$T/got"
if [ "$(id -u)" -eq 0 ]; then
	diff "$T/want" "$T/got"
fi

cp -a "$M/tree" "$T/back"
same $source "$T/back"

# The same after nothing is cached anywhere: a new mount, a new server.
umount_at "$M"
stop_server
start_server
mount_at "$M"
same $source "$M/tree"
listing "$M/tree" >"$T/again"
diff "$T/got" "$T/again"

rm -r "$M/tree"
equal "$(ls -A "$M")" "" "what is left after rm -r"
umount_at "$M"
stop_server
