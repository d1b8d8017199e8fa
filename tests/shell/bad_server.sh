#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A server that can't run says why, ends with a status that is not 0, and
# touches no store that is not its own.
. "$(dirname "$0")/lib.sh"

USER_PREFIX=()
serve() {
	timeout 60 ${USER_PREFIX[@]+"${USER_PREFIX[@]}"} "$RDMAFSD" "$@"
}

# refuse TEXT OPTION...: the server must not start, and say TEXT.
refuse() {
	local text=$1 status=0
	shift
	serve "$@" 2>"$T/stderr" >"$T/stdout" || status=$?
	[ $status -ne 0 ] && [ $status -ne 124 ] ||
		fail "rdmafsd $* ended with status $status"
	[ $status -lt 128 ] || fail "rdmafsd $* was ended by a signal"
	grep -qiE -- "$text" "$T/stderr" ||
		fail "rdmafsd $* did not say '$text': $(cat "$T/stderr")"
	say "ok: $(tail -n 1 "$T/stderr")"
}

start_server
port=${ADDRESS##*:}
refuse 'another program listens' --store "$T/second" --listen "iwarp://127.0.0.1:$port" \
	--export data=data
refuse 'lock|in use|another' --store "$T/store" \
	--listen iwarp://127.0.0.1:0 --export data=data
mount_at "$T/mnt"
printf text >"$T/mnt/file"
umount_at "$T/mnt"
stop_server

refuse 'store' --listen iwarp://127.0.0.1:0 --export data=data
refuse 'export' --store "$T/third" --listen iwarp://127.0.0.1:0
refuse 'missing' --store "$T/missing/deeper" --listen iwarp://127.0.0.1:0 \
	--export data=data
refuse 'nonsense' --store "$T/third" --nonsense
refuse 'iwarp|listen' --store "$T/third" --listen nofabric://127.0.0.1:0 \
	--export data=data
# RDMA was asked for by name: no silent TCP instead.  any is no such name.
if ! compgen -G '/sys/class/infiniband/*' >/dev/null; then
	refuse 'no RDMA device with an address' --store "$T/third" \
		--listen "verbs://[::]:0" --export data=data
	refuse 'no RDMA device has this address' --store "$T/third" \
		--listen verbs://127.0.0.1:0 --export data=data
	refuse 'no RDMA device has this address' --store "$T/third" \
		--listen iwarp://127.0.0.1:0 --listen verbs://127.0.0.1:0 \
		--export data=data
	start_server --listen any://127.0.0.1:0
	grep -q 'clients come over TCP' "$T/server.log" ||
		fail "any without a device says nothing of it"
	mount_at "$T/mnt"
	umount_at "$T/mnt"
	stop_server
fi
# Everywhere is IPv4 as well.
start_server --listen "iwarp://[::]:0"
ADDRESS=iwarp://127.0.0.1:${ADDRESS##*:}
mount_at "$T/mnt"
umount_at "$T/mnt"
stop_server
refuse 'nokey' --store "$T/third" --listen iwarp://127.0.0.1:0 \
	--export data=data --key-file "$T/nokey"

# Something else is in the folder: it is not taken for an empty store.
mkdir "$T/other"
printf 'precious\n' >"$T/other/thesis"
refuse 'other' --store "$T/other" --listen iwarp://127.0.0.1:0 \
	--export data=data
equal "$(cat "$T/other/thesis")" precious "a file of somebody else"

# Not writable, for somebody who is not root.
if [ "$(id -u)" -eq 0 ]; then
	mkdir "$T/readonly"
	USER_PREFIX=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	refuse 'readonly.*denied' --store "$T/readonly" \
		--listen iwarp://127.0.0.1:0 --export data=data
	refuse 'store.*denied' --store "$T/store" \
		--listen iwarp://127.0.0.1:0 --export data=data
	USER_PREFIX=()
fi

# Without a key nobody from outside gets in: here, this machine by an address
# that is not loopback's.
outside=$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -m 1 '^[0-9.]*$' || true)
if [ -n "$outside" ]; then
	start_server --store "$T/third" --listen iwarp://0.0.0.0:0
	mkdir "$T/outside"
	must_fail 1 'key' timeout 60 "$RDMAFS" mount \
		"iwarp://$outside:${ADDRESS##*:}/data" "$T/outside"
	ADDRESS=iwarp://127.0.0.1:${ADDRESS##*:}
	mount_at "$T/mnt"
	umount_at "$T/mnt"
	stop_server
fi

# A store of a newer format, and one whose mark is damaged.
cp "$T/store/format" "$T/format"
sed 's/^rdmafs-store 1$/rdmafs-store 2/' "$T/format" >"$T/store/format"
refuse 'newer|format' --store "$T/store" --listen iwarp://127.0.0.1:0 \
	--export data=data
printf 'nonsense\n' >"$T/store/format"
refuse 'format' --store "$T/store" --listen iwarp://127.0.0.1:0 \
	--export data=data

# After all that the store is what it was.
cp "$T/format" "$T/store/format"
start_server
mount_at "$T/mnt"
equal "$(cat "$T/mnt/file")" text "bytes"
umount_at "$T/mnt"
stop_server
