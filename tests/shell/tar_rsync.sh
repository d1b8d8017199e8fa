#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tar there and back; rsync -a, whose second run finds nothing to do.
. "$(dirname "$0")/lib.sh"
command -v rsync >/dev/null || skip "rsync is not installed"

source=/usr/include/linux
[ -d $source ] || source=/usr/share/doc
serve_and_mount

tar -C $source -cf "$M/tree.tar" .
mkdir "$M/tree"
tar -C "$M/tree" -xf "$M/tree.tar"
diff -r $source "$M/tree"
tar -C "$M/tree" --sort=name -cf "$T/back.tar" .
mkdir "$T/back"
tar -C "$T/back" -xf "$T/back.tar"
diff -r $source "$T/back"
tar -C "$M/tree" --compare -f "$T/back.tar"

rsync -a $source/ "$M/synced/"
diff -r $source "$M/synced"
moved=$(rsync -a --itemize-changes $source/ "$M/synced/")
equal "$moved" "" "what the second rsync moved"
moved=$(rsync -a --itemize-changes --checksum $source/ "$M/synced/")
equal "$moved" "" "what rsync --checksum moved"

# And from there to a local folder.
rsync -a "$M/synced/" "$T/synced/"
moved=$(rsync -a --itemize-changes "$M/synced/" "$T/synced/")
equal "$moved" "" "what the second rsync moved back"
umount_at "$M"
stop_server
