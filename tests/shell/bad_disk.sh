#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The disk of a server fails below a real mount (tests/preload/bad_disk.h): programs
# hear of it at the call that met it, the log says so once, and when the disk is well
# again all that was acknowledged is there.
. "$(dirname "$0")/lib.sh"

need_preload bad_disk

errors_in_log() {
	grep -c '^error' "$T/server.log" || true
}
serve_from_bad_disk
LISTEN=$ADDRESS
M=$T/mnt
mount_at "$M"
client=$CLIENT_PID
cp -r /usr/include/linux "$M/tree"
printf 'first\n' >"$M/file"
sync -f "$M/file"

# ---- data: the error at the right call --------------------------------------------

bad_disk "write /data/ EIO"
must_fail 1 "error writing.*Input/output error" \
	dd if=/dev/zero of="$M/zeroes" bs=64K count=4 status=none
bad_disk "write /data/ ENOSPC"
must_fail 1 "No space left on device" \
	dd if=/dev/zero of="$M/zeroes" bs=64K count=4 status=none
bad_disk "sync /data/ EIO 0 1"
must_fail 1 "fsync failed.*Input/output error" \
	dd if=/dev/zero of="$M/synced" bs=64K count=4 conv=fsync status=none
bad_disk "read /data/ EIO"
must_fail 1 "Input/output error" \
	dd if="$M/tree/fs.h" of=/dev/null iflag=direct bs=64K status=none
bad_disk ""
diff -r /usr/include/linux "$M/tree"
equal "$(cat "$M/file")" first "what was there"
grep -q 'inode [0-9]*: write of its data: Input/output error.*see to the disk' \
	"$T/server.log"

# ---- the log: read-only until the server is started again -------------------------

before=$(errors_in_log)
bad_disk "write /meta/ EIO"
must_fail 1 "Input/output error" mkdir "$M/directory"
bad_disk ""
for ((i = 0; i < 20; i++)); do
	must_fail 1 "Read-only file system" mkdir "$M/directory.$i" >/dev/null
done
must_fail 1 "Read-only file system" rm "$M/file"
must_fail 1 "Read-only file system" truncate -s 1 "$M/file"
diff -r /usr/include/linux "$M/tree"
df "$M" >/dev/null
equal $(($(errors_in_log) - before)) 1 "errors in the log"
grep -q '^error metadata: write of the log: .*read-only.*start the server again' \
	"$T/server.log"
mkdir "$T/other"
must_fail 1 "disk of the server has failed" \
	"$RDMAFS" mount "$ADDRESS/data" "$T/other" -f
is_gone "$SERVER_PID" && fail "the server has ended"

stop_server
start_server --listen "$LISTEN"
mkdir "$M/after"
diff -r /usr/include/linux "$M/tree"
equal "$(cat "$M/file")" first "what was there"
[ ! -e "$M/directory.0" ] || fail "what was refused has happened"

# ---- a server that finds a bad disk says so and ends ------------------------------

stop_server
bad_disk "sync /meta/ EIO"
status=0
env "LD_PRELOAD=$PRELOAD" "BAD_DISK=$T/rules" "$RDMAFSD" --store "$T/store" \
	--export data=data --listen "$LISTEN" 2>"$T/second.log" || status=$?
equal $status 1 "status of a server on a bad disk"
equal "$(grep -c '^error' "$T/second.log")" 1 "its errors"
start_server --listen "$LISTEN"
printf 'second\n' >>"$M/file"
sync -f "$M/file"
equal "$(cat "$M/file")" "$(printf 'first\nsecond')" "the file"
umount_at "$M" "$client"
stop_server
