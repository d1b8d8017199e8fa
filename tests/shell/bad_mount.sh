#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Mounts that can't work say why in one line, end with status 1 (2: usage), in
# the time that was set, and leave nothing mounted.
. "$(dirname "$0")/lib.sh"

"$RDMAFS" keygen "$T/key"
"$RDMAFS" keygen "$T/other"
start_server --key-file "$T/key" --export data=data \
	--export far=far,allow=192.0.2.0/24
M=$T/mnt
mkdir "$M"
: >"$T/file"

mount_it() {
	timeout 60 "$RDMAFS" mount "$@"
}

must_fail 1 'key' mount_it "$ADDRESS/data" "$M"
must_fail 1 'key' mount_it "$ADDRESS/data" "$M" -o "key=$T/other"
must_fail 1 "$T/nokey" mount_it "$ADDRESS/data" "$M" -o "key=$T/nokey"
printf 'nonsense\n' >"$T/badkey"
chmod 600 "$T/badkey"
must_fail 1 "$T/badkey" mount_it "$ADDRESS/data" "$M" -o "key=$T/badkey"
cp "$T/key" "$T/loose"
chmod 644 "$T/loose"
must_fail 1 "$T/loose" mount_it "$ADDRESS/data" "$M" -o "key=$T/loose"
must_fail 1 'export' mount_it "$ADDRESS/nothing" "$M" -o "key=$T/key"
must_fail 1 'address|network|allowed' \
	mount_it "$ADDRESS/far" "$M" -o "key=$T/key"
must_fail 1 'no such directory' \
	mount_it "$ADDRESS/data" "$T/missing" -o "key=$T/key"
must_fail 1 'not a directory' \
	mount_it "$ADDRESS/data" "$T/file" -o "key=$T/key"
must_fail 1 'fabric|nofabric' mount_it "nofabric://127.0.0.1/data" "$M"
must_fail 1 'name.invalid' mount_it "name.invalid:/data" "$M" -o mount_timeo=5
# RDMA was asked for by name: no silent TCP instead, though the server has that.
if ! compgen -G '/sys/class/infiniband/*' >/dev/null; then
	must_fail 1 'no verbs device' \
		mount_it "verbs:${ADDRESS#*:}/data" "$M" -o "key=$T/key"
fi
must_fail 2 'no export' mount_it "127.0.0.1" "$M"
must_fail 2 'unknown option' mount_it "$ADDRESS/data" "$M" -o "kye=$T/key"
must_fail 2 'needs a source' mount_it "$ADDRESS/data"
must_fail 2 'unknown command' "$RDMAFS" remount

# With the right key it works; there it is then in use.
mount_at "$M" "key=$T/key"
must_fail 1 'mounted there already' \
	mount_it "$ADDRESS/data" "$M" -o "key=$T/key"
umount_at "$M"
stop_server

# Nobody listens; somebody listens and never answers.
must_fail 1 'nobody listens' mount_it "$ADDRESS/data" "$M" -o mount_timeo=5
start_server
kill -STOP "$SERVER_PID"
started=$SECONDS
must_fail 1 'no answer' \
	mount_it "$ADDRESS/data" "$M" -o mount_timeo=2
[ $((SECONDS - started)) -lt 20 ] || fail "gave up too late"
kill -CONT "$SERVER_PID"
! is_mounted "$M" || fail "something is mounted"
mount_at "$M"
umount_at "$M"
stop_server
