#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Files without a name, and those that get one later, are as on a local file system.
. "$(dirname "$0")/lib.sh"

TOOL=$BUILD/tests/tools/no_name
mkdir "$T/local"
"$TOOL" "$T/local" "$T/local" >"$T/want"
grep -q EOPNOTSUPP "$T/want" && skip "the file system of $T has no O_TMPFILE"

start_server
mount_at "$T/a"
pid_a=$CLIENT_PID
mount_at "$T/b"
pid_b=$CLIENT_PID
for other in a b; do
	mkdir -p "$T/a/dir"
	"$TOOL" "$T/a/dir" "$T/$other/dir" >"$T/got"
	if grep -q EOPNOTSUPP "$T/got"; then
		skip "this kernel's FUSE has no O_TMPFILE"
	fi
	diff "$T/want" "$T/got" || fail "not as on a local file system"
done
umount_at "$T/a" "$pid_a"
umount_at "$T/b" "$pid_b"
stop_server
