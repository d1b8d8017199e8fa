#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mount -t rdmafs, and by a line of fstab, through mount.rdmafs.
. "$(dirname "$0")/lib.sh"
enter_namespace

# Only in this namespace: the folder where mount(8) looks for helpers.
mount -t tmpfs -o size=64k rdmafs-test "$(readlink -f /sbin)"
ln -s "$RDMAFS" /sbin/mount.rdmafs
start_server
M=$T/mnt
mkdir "$M"
source=${ADDRESS}/data

mount -t rdmafs "$source" "$M"
is_mounted "$M" || fail "nothing is mounted"
printf 'text\n' >"$M/file"
equal "$(findmnt -n -o SOURCE,FSTYPE "$M")" "$source fuse.rdmafs" "findmnt"
case $(findmnt -n -o OPTIONS "$M") in
*nosuid*nodev*) ;;
*) fail "suid or dev without being asked for" ;;
esac
umount "$M"

# HOST:/EXPORT without the port is NFS users' way; here the port is needed.
printf '%s %s rdmafs noauto,_netdev,nofail,x-systemd.automount,ro,noexec,timeo=5 0 0\n' \
	"$source" "$M" >"$T/fstab"
mount -T "$T/fstab" "$M"
is_mounted "$M" || fail "nothing is mounted"
equal "$(cat "$M/file")" text "bytes"
if (: >"$M/new") 2>"$T/stderr"; then
	fail "wrote to a read-only mount"
fi
grep -q 'Read-only file system' "$T/stderr"
case $(findmnt -n -o OPTIONS "$M") in
ro,*noexec*) ;;
*) fail "options of fstab were lost: $(findmnt -n -o OPTIONS "$M")" ;;
esac
umount "$M"

# Errors come through mount(8).
if mount -t rdmafs -o nonsense "$source" "$M" 2>"$T/stderr"; then
	fail "an unknown option was taken"
fi
grep -q "unknown option 'nonsense'" "$T/stderr"
if mount -t rdmafs "${ADDRESS}/missing" "$M" 2>"$T/stderr"; then
	fail "an unknown export was mounted"
fi
! is_mounted "$M" || fail "mounted in spite of an error"
mount -f -t rdmafs "$source" "$M"
! is_mounted "$M" || fail "mount -f mounted"
stop_server
