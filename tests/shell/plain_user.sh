#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A plain user serves, mounts by fusermount3, works and unmounts; nobody else,
# not even root, gets in.
. "$(dirname "$0")/lib.sh"
need_user
command -v fusermount3 >/dev/null || skip "fusermount3 is not installed"

start_server
M=$T/mnt
${AS_USER[@]+"${AS_USER[@]}"} mkdir "$M"

as_user() {
	${AS_USER[@]+"${AS_USER[@]}"} "$@"
}

# In the background, as users do; it says what it could not do.
as_user "$RDMAFS" mount "$ADDRESS/data" "$M" 2>"$T/mount.log"
is_mounted "$M" || fail "nothing is mounted"
equal "$(grep -c '^warn read-ahead stays' "$T/mount.log")" 1 \
	"lines on read-ahead"
as_user cp -r /usr/include/linux "$M/tree"
as_user diff -r /usr/include/linux "$M/tree"
if [ "$(id -u)" -eq 0 ]; then
	if ls "$M" >/dev/null 2>&1; then
		fail "root may look into a user's mount"
	fi
fi
equal "$(as_user stat -c %U "$M/tree")" "$(as_user id -un)" "owner"
if as_user chown 0 "$M/tree" 2>/dev/null; then
	fail "a plain user gave a file to root"
fi

# In use, then free.
${AS_USER[@]+"${AS_USER[@]}"} sh -c 'cd "$1" && exec sleep 60' sh "$M" &
PIDS+=($!)
is_held() {
	[ "$(readlink "/proc/$1/cwd")" = "$M" ]
}
wait_until "a process on the mount" is_held $!
must_fail 1 'umount: .*busy' as_user "$RDMAFS" umount "$M"
kill $!
wait $! 2>/dev/null || true
as_user "$RDMAFS" umount "$M"
! is_mounted "$M" || fail "still mounted"

# What fusermount3 refuses is told in one line.
mkdir "$T/root-owned" 2>/dev/null && chmod 755 "$T/root-owned"
if [ "$(id -u)" -eq 0 ]; then
	must_fail 1 'root-owned failed: fusermount3: .*no write access' \
		as_user "$RDMAFS" mount "$ADDRESS/data" "$T/root-owned"
fi
if ! grep -qx user_allow_other /etc/fuse.conf 2>/dev/null; then
	must_fail 1 'user_allow_other' as_user "$RDMAFS" mount \
		"$ADDRESS/data" "$M" -o allow_other
fi
stop_server
