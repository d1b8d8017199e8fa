#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a configuration file says of exports holds: sub-directory, read-only,
# root squash, networks; one store, several views.
. "$(dirname "$0")/lib.sh"

cat >"$T/rdmafsd.conf" <<-END
	[server]
	store = $T/store
	listen = iwarp://127.0.0.1:0

	[export all]
	path = shared

	[export view]
	path = shared
	ro = yes

	[export careful]
	path = careful
	root-squash = yes

	[export near]
	path = near
	allow = 127.0.0.0/8

	[export far]
	path = far
	allow = 192.0.2.0/24
END
log=$T/server.log
"$RDMAFSD" --config "$T/rdmafsd.conf" 2>"$log" &
SERVER_PID=$!
PIDS+=("$SERVER_PID")
wait_until "the server" is_ready_or_gone "$log" "$SERVER_PID"
ADDRESS=$(ready_address "$log")
[ -n "$ADDRESS" ] || fail "the server did not start"

mount_at "$T/all" "" all
all=$CLIENT_PID
mount_at "$T/view" "" view
view=$CLIENT_PID
mount_at "$T/near" "" near
near=$CLIENT_PID

printf text >"$T/all/file"
equal "$(cat "$T/view/file")" text "bytes through the read-only export"
if (: >"$T/view/new") 2>"$T/stderr"; then
	fail "a file was made in a read-only export"
fi
grep -q 'Read-only file system' "$T/stderr"
if rm -f "$T/view/file" 2>/dev/null; then
	fail "a file was removed from a read-only export"
fi
: >"$T/near/mine"
[ ! -e "$T/all/mine" ] || fail "two exports share a directory"
mkdir "$T/far"
must_fail 1 'address|network|allowed' \
	"$RDMAFS" mount "$ADDRESS/far" "$T/far"

if [ "$(id -u)" -eq 0 ]; then
	mount_at "$T/careful" "" careful
	careful=$CLIENT_PID
	if (: >"$T/careful/file") 2>/dev/null; then
		owner=$(stat -c %u "$T/careful/file")
		[ "$owner" -ne 0 ] || fail "root made a file of root's"
	fi
	umount_at "$T/careful" "$careful"
fi
umount_at "$T/near" "$near"
umount_at "$T/view" "$view"
umount_at "$T/all" "$all"
stop_server
