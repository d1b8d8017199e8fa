#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random operations on names, attributes and open files, by several users if run
# as root, beside a model in memory: results, errno, attributes and times must be
# the model's, on one mount and with calls that alternate between two.
. "$(dirname "$0")/lib.sh"

MODEL=$BUILD/tests/posix/names_model

[ "$(id -u)" -ne 0 ] || enter_namespace
mkdir -p "$T/local"
if [ "$(id -u)" -eq 0 ]; then
	# As a mount of rdmafs is: devices can't be opened there.
	mount --bind "$T/local" "$T/local"
	mount -o remount,bind,nodev,nosuid "$T/local"
fi
start_server
mount_two
mkdir "$A/dir"

# ext4 or xfs; others (tmpfs) differ in what moves which time.
case $(stat -f -c %T "$T/local") in
ext2/ext3 | xfs)
	say "a local file system, to prove the model"
	"$MODEL" --ops 6000 "$T/local"
	;;
esac
say "one mount"
run_model "$MODEL" "$A/dir"
say "two mounts in turn"
run_model "$MODEL" "$A/dir" "$B/dir"

# A fault is found, made small, and is there again in what is printed.
if "$MODEL" --spoil --seed 1 "$A/dir" >"$T/found"; then
	fail "a chmod that goes wrong was not found"
fi
sed '1,/operations are left/d' "$T/found" >"$T/script"
[ "$(wc -l <"$T/script")" -le 10 ] || fail "the list was not made small"
if "$MODEL" --spoil --replay "$T/script" "$B/dir"; then
	fail "the printed list does not fail"
fi
"$MODEL" --replay "$T/script" "$B/dir"

umount_two
umount "$T/local" 2>/dev/null || true
stop_server
