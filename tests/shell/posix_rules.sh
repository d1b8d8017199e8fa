#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The rules of POSIX and Linux one by one (tests/posix/rules_*.c): on a local file
# system, which proves the rules; on one mount; and done on one mount and seen on
# another.
. "$(dirname "$0")/lib.sh"

start_server
mount_two
mkdir "$T/local" "$A/dir"
for program in "$ROOT"/tests/posix/rules_*.c; do
	program=$BUILD/tests/posix/$(basename "$program" .c)
	say "$program, local"
	"$program" "$T/local"
	say "$program, one mount"
	"$program" "$A/dir"
	say "$program, two mounts"
	"$program" "$A/dir" "$B/dir"
done
umount_two
stop_server
