#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mount -t rdmafs, and by a line of fstab, through mount.rdmafs.
. "$(dirname "$0")/lib.sh"
enter_namespace

# Only in this namespace: the folder where mount(8) looks for helpers.
mount -t tmpfs -o size=64k rdmafs-test "$(readlink -f /sbin)"
ln -s "$RDMAFS" /sbin/mount.rdmafs
ln -s "$RDMAFS" /sbin/mount.fuse.rdmafs
start_server
M=$T/mnt
mkdir "$M"
source=${ADDRESS}/data

# Nothing is said when all is well, unless it is asked for.
equal "$(mount -t rdmafs "$source" "$M" 2>&1)" "" "what mount says"
umount "$M"
/sbin/mount.rdmafs "$source" "$M" -v 2>"$T/stderr"
grep -q 'info connected to ' "$T/stderr" || fail "-v said nothing"
umount "$M"

mount -t rdmafs "$source" "$M"
is_mounted "$M" || fail "nothing is mounted"
printf 'text\n' >"$M/file"
equal "$(findmnt -n -o SOURCE,FSTYPE "$M")" "$source fuse.rdmafs" "findmnt"
case $(findmnt -n -o OPTIONS "$M") in
*nosuid*nodev*) ;;
*) fail "suid or dev without being asked for" ;;
esac

# A running mount becomes read-only, and back, and may run nothing.
must_write() {
	(: >"$M/new") || fail "can't write"
}
mount -o remount,ro "$M"
if (: >"$M/new") 2>"$T/stderr"; then
	fail "wrote to a mount that was made read-only"
fi
grep -q 'Read-only file system' "$T/stderr"
mount -o remount,rw,noexec "$M"
must_write
cp /bin/true "$M/program"
if "$M/program" 2>"$T/stderr"; then
	fail "a program ran in spite of noexec"
fi
mount -o remount,exec "$M"
"$M/program"
umount "$M"
mount -t rdmafs -o ro "$source" "$M"
mount -o remount,rw "$M"
must_write
umount "$M"

# Devices and set-id programs: only if they are asked for.  mount(8) keeps dev and
# suid, its own defaults, for itself, unless it changes a mount that lacks them.
mount -t rdmafs "$source" "$M"
cp /usr/bin/id "$M/id"
chmod 6755 "$M/id"
mknod "$M/null" c 1 3
chmod 666 "$M/null"
what_counts() {
	local out=
	(: >"$M/null") 2>/dev/null && out=dev
	[ "$(setpriv --reuid 65534 --regid 65534 --clear-groups "$M/id" -u)" != 0 ] ||
		out="$out suid"
	say "${out:-nothing}"
}
equal "$(what_counts)" "nothing" "what counts by default"
mount -o remount,dev,suid "$M"
equal "$(what_counts)" "dev suid" "after remount,dev,suid"
mount -o remount,noexec "$M"
mount -o remount,exec "$M"
equal "$(what_counts)" "dev suid" "after another remount"
mount -o remount,nodev "$M"
equal "$(what_counts)" " suid" "after remount,nodev"
umount "$M"
mount -t rdmafs -o allow_suid "$source" "$M"
equal "$(what_counts)" " suid" "by allow_suid"
umount "$M"
mount -t rdmafs -o allow_dev,allow_suid,nosuid,nodev "$source" "$M"
equal "$(what_counts)" "nothing" "by allow_dev,allow_suid,nosuid,nodev"
umount "$M"
printf '%s %s rdmafs noauto,allow_dev,allow_suid 0 0\n' "$source" "$M" \
	>"$T/fstab"
mount -T "$T/fstab" "$M"
equal "$(what_counts)" "dev suid" "by allow_dev,allow_suid in fstab"
umount "$M"
"$RDMAFS" mount "$source" "$M" -o dev,suid
equal "$(what_counts)" "dev suid" "by dev,suid of rdmafs mount"
"$RDMAFS" umount "$M"

# atime: by the relatime rule, unless asked not to.
atime_after() { # OPTIONS COMMAND...: does it move the atime of what is in $M?
	local options=$1 before
	shift
	mount -t rdmafs -o "$options" "$source" "$M"
	before=$(stat -c %x "$M/file" "$M/dir")
	"$@" >/dev/null
	if [ "$(stat -c %x "$M/file" "$M/dir")" = "$before" ]; then
		say "stays"
	else
		say "moves"
	fi
	umount "$M"
}
age() {
	mount -t rdmafs "$source" "$M"
	mkdir -p "$M/dir"
	touch -a -d 2001-01-01 "$M/file" "$M/dir"
	umount "$M"
}
age
equal "$(atime_after noatime cat "$M/file")" stays "noatime, cat"
equal "$(atime_after noatime ls "$M/dir")" stays "noatime, ls"
equal "$(atime_after nodiratime ls "$M/dir")" stays "nodiratime, ls"
equal "$(atime_after ro cat "$M/file")" stays "ro, cat"
equal "$(atime_after rw dd if="$M/file" iflag=noatime status=none)" stays \
	"O_NOATIME"
equal "$(atime_after rw cat "$M/file")" moves "cat"
equal "$(atime_after rw cat "$M/file")" stays "cat again"
equal "$(atime_after rw ls "$M/dir")" moves "ls"
equal "$(atime_after rw ls "$M/dir")" stays "ls again"
equal "$(atime_after lazytime cat "$M/file")" stays "lazytime"
equal "$(atime_after strictatime cat "$M/file")" moves "strictatime, cat"
equal "$(atime_after strictatime ls "$M/dir")" moves "strictatime, ls"
equal "$(atime_after noatime,strictatime cat "$M/file")" moves "both"
equal "$(atime_after nodiratime,strictatime ls "$M/dir")" stays "nodiratime, ls"

# With strictatime each read counts, also of what was just read.
mount -t rdmafs -o strictatime "$source" "$M"
cat "$M/file" >"$T/out"
before=$(stat -c %x "$M/file")
cat "$M/file" >"$T/out"
[ "$(stat -c %x "$M/file")" != "$before" ] || fail "the second cat left atime"
umount "$M"

# HOST:/EXPORT without the port is NFS users' way; here the port is needed.
printf '%s %s rdmafs noauto,_netdev,nofail,x-systemd.automount,ro,noexec,mount_timeo=5 0 0\n' \
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
