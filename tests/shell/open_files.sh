#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Open files outlive their names and their permissions, as on a local disk.
. "$(dirname "$0")/lib.sh"

serve_and_mount

# Unlinked, still read, written and grown.
head -c 2M /dev/urandom >"$T/data"
cp "$T/data" "$M/gone"
exec 3<>"$M/gone"
rm "$M/gone"
[ ! -e "$M/gone" ] || fail "the name is still there"
equal "$(stat -L -c %h /proc/self/fd/3)" 0 "links"
cmp "$T/data" /proc/self/fd/3
cp "$T/data" "$M/other"
cat "$T/data" >>/proc/self/fd/3
equal "$(stat -L -c %s /proc/self/fd/3)" $((4 << 20)) "size"
cmp <(cat "$T/data" "$T/data") /proc/self/fd/3
exec 3<&-
equal "$(ls -A "$M")" other "names"

# Replaced by rename: the open one keeps the old bytes.
printf old >"$M/file"
printf new >"$M/file.new"
exec 3<"$M/file"
mv "$M/file.new" "$M/file"
equal "$(cat <&3)" old "bytes of the open file"
equal "$(cat "$M/file")" new "bytes of the name"
exec 3<&-

# A directory that is somebody's working directory can be removed.
mkdir "$M/dir"
(
	cd "$M/dir"
	rmdir "$M/dir"
	if : 2>/dev/null >file; then
		exit 1
	fi
) || fail "a file was made in a removed directory"

# Rights were checked at open; chmod comes too late.
printf text >"$M/closed"
exec 3<>"$M/closed"
chmod 000 "$M/closed"
equal "$(cat <&3)" text "bytes after chmod"
printf more >&3
exec 3<&-
equal "$(stat -c '%a %s' "$M/closed")" "0 8" "mode and size"

# O_EXCL, O_TRUNC, links.
set -o noclobber
if (: >"$M/file") 2>/dev/null; then
	fail "O_EXCL opened a file that exists"
fi
set +o noclobber
: >"$M/file"
equal "$(stat -c %s "$M/file")" 0 "size after O_TRUNC"
ln "$M/file" "$M/link"
printf x >"$M/link"
equal "$(cat "$M/file")" x "bytes through the other name"
equal "$(stat -c %i "$M/file")" "$(stat -c %i "$M/link")" "inode"

# Space comes back when the last of name and descriptor is gone.
before=$(du -sk "$T/store" | cut -f1)
head -c 32M /dev/urandom >"$M/big"
exec 3<"$M/big"
rm "$M/big"
[ "$(du -sk "$T/store" | cut -f1)" -gt $((before + 30000)) ] ||
	fail "the data of an open file were removed"
exec 3<&-
is_small() {
	[ "$(du -sk "$T/store" | cut -f1)" -lt $((before + 20000)) ]
}
wait_until "the room of a removed file" is_small
umount_at "$M"
stop_server
