#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The server's host of two: serves, and does what the other one asks for through
# the shared folder, until the file "end" is there.
. "$(dirname "$0")/../guest.sh"

shared=$RDMA_VM_SHARED

# A short keep-alive, so that a client that was cut off is gone soon.
serve() {
	start_server --listen "verbs://$RDMA_VM_ADDRESS:20490" --insecure \
		--keepalive-ms 5000
}

# The kernel's word on what went wrong, for the end.
judge_kernel() {
	! dmesg | grep -E 'BUG|WARNING:|Oops|refcount' || fail "the kernel"
}

serve
touch "$shared/ready"
number=1
until [ -e "$shared/end" ]; do
	if [ ! -e "$shared/$number.command" ]; then
		pause
		continue
	fi
	status=0
	eval "$(cat "$shared/$number.command")" >"$shared/$number.out" 2>&1 ||
		status=$?
	echo "$status" >"$shared/$number.new"
	mv "$shared/$number.new" "$shared/$number.status"
	number=$((number + 1))
done
[ -z "$SERVER_PID" ] || stop_server
judge_kernel
