#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One server, on iwarp and on the device at once; a device that was asked for and
# is not there is an error, on either side.
. "$(dirname "$0")/guest.sh"

level=window
[ "$RDMA_DEVICE" != siw ] || level=session
device="verbs://${RDMA_DEVICE}0, rights by $level"

# announced TEXT: the server said that it listens so.
announced() {
	grep -qF "ready: listening on $1" "$T/server.log" ||
		fail "not announced: $1: $(grep ready "$T/server.log")"
}

# use WRITER READER: two ways to the same files.
use() {
	local pid
	ADDRESS=$1
	mount_at "$T/a"
	pid=$CLIENT_PID
	ADDRESS=$2
	mount_at "$T/b"
	head -c 300001 /dev/urandom >"$T/data"
	cp "$T/data" "$T/a/file"
	cmp "$T/data" "$T/b/file"
	umount_at "$T/a" "$pid"
	umount_at "$T/b"
}

start_server --listen any --listen any://127.0.0.1:0 --insecure
announced "verbs://$RDMA_VM_ADDRESS:20490 ($device)"
announced "iwarp://127.0.0.1:"
if [ "$RDMA_DEVICE" = siw ]; then
	# The device has the port of its address; iwarp has it on the others.
	announced "iwarp://127.0.0.1:20490"
else
	announced "iwarp://[::]:20490"
	announced "iwarp://0.0.0.0:20490"
fi
kill -USR1 "$SERVER_PID"
wait_until "the figures" grep -q "figures: verbs://.*rights by $level" \
	"$T/server.log"
use "verbs://$RDMA_VM_ADDRESS:20490" iwarp://127.0.0.1:20490
use "iwarp://$RDMA_VM_ADDRESS:20490" "verbs://$RDMA_VM_ADDRESS:20490"
grep -qE "session .* over verbs://${RDMA_DEVICE}0, rights by $level" \
	"$T/server.log" || fail "no session is said to be over the device"
# (rxe has the loopback addresses, too.)
if [ "$RDMA_DEVICE" = siw ]; then
	mkdir "$T/no"
	must_fail 1 'no verbs device' timeout 60 "$RDMAFS" mount \
		verbs://127.0.0.1:20490/data "$T/no"
fi
stop_server

# Without a scheme it is the way that leads there: a server that listens on iwarp
# only is found although there is a device.
start_server --listen "iwarp://$RDMA_VM_ADDRESS:0" --insecure
use "${ADDRESS#iwarp://}" "$ADDRESS"
stop_server

# Every device, and nothing else.
start_server --listen "verbs://[::]:0" --insecure
equal "$(grep -c 'ready: listening' "$T/server.log")" \
	"$(grep -c 'ready: listening on verbs:' "$T/server.log")" "listeners"
stop_server

# One that no device has.
[ "$RDMA_DEVICE" = siw ] || exit 0
status=0
"$RDMAFSD" --store "$T/store" --export data=data --insecure \
	--listen verbs://127.0.0.1:0 2>"$T/stderr" || status=$?
[ $status -ne 0 ] || fail "a server without the device that it should use"
grep -q "verbs://127.0.0.1:0: no RDMA device has this address" "$T/stderr" ||
	fail "it did not say so: $(cat "$T/stderr")"
