#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Access control lists, and extended attributes beside them, are what they are on
# a local file system: the same steps by several users print the same there, on one
# mount, and when each second step is done on another mount.
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" -eq 0 ] || skip "needs root, to be several users"
for tool in setfacl getfacl setfattr getfattr; do
	command -v $tool >/dev/null || skip "$tool is not installed"
done

# as UID GROUPS COMMAND...: GROUPS with commas, the first one is the main one.
as() {
	local uid=$1 groups=$2
	shift 2
	setpriv --reuid "$uid" --regid "${groups%%,*}" --groups "$groups" "$@"
}

# Tell what came of a command, but neither where nor which program said it.
tell() {
	local status=0
	"$@" >"$T/out" 2>&1 || status=$?
	sed "s#$T/[a-z]*/##g; s#^[^ ]*: ##" "$T/out"
	printf '  -> %d\n' "$status"
}

lists() { # FILE...
	local file
	for file; do
		stat -c '%a %n' "$file" | sed "s#$T/[a-z]*/##"
		getfacl -n -p -E -c "$file"
	done
}

may() { # FILE: who may do what with it
	local who
	for who in "1001 1001" "1002 1002" "1003 1003,2000" "1004 1004,2000,2001" \
		"1005 1005,2001"; do
		# shellcheck disable=SC2086
		set -- $who "$1"
		printf '%s:' "$1"
		as "$1" "$2" test -r "$3" && printf ' read'
		as "$1" "$2" test -w "$3" && printf ' write'
		as "$1" "$2" test -x "$3" && printf ' execute'
		as "$1" "$2" cat "$3" >/dev/null 2>&1 && printf ' reads'
		as "$1" "$2" bash -c ': >>"$1"' - "$3" 2>/dev/null &&
			printf ' writes'
		echo
		set -- "$3"
	done
}

# The steps; A and B are the same directory.
steps() {
	local A=$1 B=$2
	umask 022
	mkdir "$A/d"
	chmod 777 "$A/d"
	as 1001 1001 bash -c 'echo text >"$1"' - "$A/d/f"
	chmod 640 "$A/d/f"
	chgrp 2000 "$B/d/f"
	may "$A/d/f"
	echo "-- a user, a group"
	as 1001 1001 setfacl -m u:1002:rw,g:2001:r "$A/d/f"
	lists "$B/d/f"
	may "$B/d/f"
	echo "-- the mask"
	as 1001 1001 setfacl -m m::r "$B/d/f"
	lists "$A/d/f"
	may "$A/d/f"
	echo "-- chmod sets mask, owner, others"
	as 1001 1001 chmod 763 "$A/d/f"
	lists "$B/d/f"
	may "$B/d/f"
	chmod 4700 "$B/d/f"
	lists "$A/d/f"
	may "$A/d/f"
	echo "-- setgid goes when one who is not of the group sets a list"
	chmod 2770 "$A/d/f"
	as 1001 1001 setfacl -m u:1002:r "$A/d/f"
	lists "$B/d/f"
	echo "-- who may set"
	tell as 1002 1002 setfacl -m u:1003:rw "$A/d/f"
	tell as 1001 1001 setfacl -m d:u:1003:rw "$A/d/f"
	tell setfacl -x u:7777 "$A/d/f"
	ln -s f "$A/d/l"
	tell setfattr -h -n system.posix_acl_access -v 0x02000000 "$A/d/l"
	tell setfattr -n system.posix_acl_access -v 0x0300000001000600ffffffff "$A/d/f"
	tell setfattr -n system.posix_acl_access -v 0x02 "$A/d/f"
	tell setfattr -n system.other -v x "$A/d/f"
	tell getfattr -n system.posix_acl_default "$B/d/f"
	echo "-- away"
	as 1001 1001 setfacl -b "$B/d/f"
	lists "$A/d/f"
	may "$A/d/f"
	tell getfattr -n system.posix_acl_access "$B/d/f"
	tell setfattr -x system.posix_acl_access "$B/d/f"
	echo "-- a list that is a mode"
	setfacl --set u::rw,g::r,o::- "$A/d/f"
	lists "$B/d/f"
	tell getfattr -d -m - --absolute-names "$B/d/f"

	echo "-- default lists are inherited"
	mkdir "$A/i"
	setfacl -m d:u:1002:rwx,d:g:2001:rx,d:m::rwx,d:o::-,u:1001:rwx "$B/i"
	umask 077
	mkdir "$A/i/dir"
	touch "$B/i/file"
	(umask 0; echo x >"$A/i/open"; mkdir "$B/i/opendir")
	mknod "$A/i/fifo" p
	mkdir -m 750 "$B/i/dir750"
	ln -s x "$A/i/link"
	install -m 444 /dev/null "$B/i/installed"
	lists "$B/i" "$B/i/dir" "$A/i/file" "$B/i/open" "$A/i/opendir" \
		"$B/i/fifo" "$A/i/dir750" "$A/i/installed"
	as 1001 1001 mkdir "$A/i/dir/nomkdir" 2>/dev/null || echo "no"
	as 1002 1002 mkdir "$B/i/opendir/deep"
	lists "$A/i/opendir/deep"
	may "$A/i/open"
	tell getfattr -d -m - --absolute-names -e hex "$A/i/opendir"
	setfacl -k "$A/i"
	touch "$B/i/plain"
	lists "$A/i/plain" "$A/i"
	umask 022

	echo "-- a search by list only"
	mkdir -m 700 "$A/s"
	echo inside >"$A/s/file"
	tell as 1002 1002 cat "$B/s/file"
	setfacl -m u:1002:x "$A/s"
	tell as 1002 1002 cat "$B/s/file"
	tell as 1002 1002 ls "$B/s"
	tell as 1002 1002 touch "$B/s/new"
	setfacl -m u:1002:rwx "$B/s"
	tell as 1002 1002 touch "$A/s/new"
	tell as 1002 1002 rm "$A/s/file"
	setfacl -b "$A/s"
	tell as 1002 1002 ls "$B/s"
	for i in 1 2 3 4 5; do
		setfacl -m u:1002:rx "$A/s"
		as 1002 1002 ls "$B/s" >/dev/null || echo "not yet"
		setfacl -x u:1002 "$A/s"
		! as 1002 1002 ls "$B/s" >/dev/null 2>&1 || echo "still"
	done
	echo "-- lists go along"
	setfacl -m u:1002:rw "$A/s/new"
	cp -p "$A/s/new" "$A/s/copy"
	mv "$B/s/copy" "$B/copy"
	lists "$A/copy"

	echo "-- extended attributes"
	echo x >"$A/x"
	chmod 644 "$A/x"
	tell as 1002 1002 setfattr -n user.a -v 1 "$A/x"
	tell setfattr -n user.a -v 1 "$A/x"
	tell as 1002 1002 getfattr -n user.a --absolute-names --only-values "$B/x"
	tell setfattr -n trusted.t -v secret "$B/x"
	tell as 1002 1002 getfattr -n trusted.t --absolute-names "$A/x"
	tell getfattr -d -m - --absolute-names "$A/x"
	tell as 1002 1002 getfattr -d -m - --absolute-names "$A/x"
	tell as 1002 1002 setfattr -n security.other -v 1 "$A/x"
	tell setfattr -n security.other -v 1 "$A/x"
	tell setfattr -n user. -v 1 "$A/x"
	tell setfattr -n nothing -v 1 "$A/x"
	tell setfattr -n "user.$(printf 'n%.0s' {1..250})" -v 1 "$A/x"
	tell setfattr -n "user.$(printf 'n%.0s' {1..251})" -v 1 "$A/x"
	tell setfattr -x user.none "$A/x"
	tell setfattr -h -n user.a -v 1 "$A/i/link"
	tell setfattr -h -n trusted.a -v 1 "$A/i/link"
	tell setfattr -n user.a -v 1 "$A/i/fifo"
	chmod 1777 "$A/d"
	tell as 1002 1002 setfattr -n user.a -v 1 "$A/d"
	tell setfattr -n user.empty -v "" "$A/x"
	tell getfattr -n user.empty --absolute-names -e hex "$B/x"
}

mkdir "$T/local"
setfacl -m u:1:r "$T/local" 2>/dev/null ||
	skip "the file system of $T has no access control lists"
setfacl -b "$T/local"
steps "$T/local" "$T/local" >"$T/want" 2>&1

same_as_here() { # LABEL DIR DIR
	rm -rf "$2"/* || fail "rm"
	steps "$2" "$3" >"$T/got" 2>&1
	diff "$T/want" "$T/got" || fail "$1: not as on a local file system"
}

A=$T/a
B=$T/b
start_server
mount_at "$A"
pid_a=$CLIENT_PID
same_as_here "one mount" "$A" "$A"
mount_at "$B"
pid_b=$CLIENT_PID
same_as_here "two mounts" "$A" "$B"

# They are on the disk.
setfacl -R -m u:1002:rwx "$A/i"
lists "$A/i" "$A/i/file" >"$T/want"
umount_two
stop_server
start_server
mount_at "$A"
lists "$A/i" "$A/i/file" >"$T/got"
diff "$T/want" "$T/got" || fail "not the same after a restart"
umount_at "$A"
stop_server
