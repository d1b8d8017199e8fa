#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rping, a program of others, and our fabric understand each other, whoever listens.
. "$(dirname "$0")/guest.sh"

command -v rping >/dev/null ||
	skip "rping is not installed (scripts/install-deps --rdma)"
PEER=$BUILD/tests/tools/rping_peer
[ -x "$PEER" ] || skip "make tools has not made tests/tools/rping_peer"
PINGS=5
port=20500

has_port() {
	[ -n "$(sed -n 's/^ready: port //p' "$T/peer.log")" ] || is_gone "$1"
}

# rping_calls URI: rping -c, whose -V compares what comes back.
rping_calls() {
	local pid
	"$PEER" --uri "$1" --count $PINGS --listen "$RDMA_VM_ADDRESS:0" \
		>"$T/peer.log" 2>&1 &
	pid=$!
	PIDS+=("$pid")
	wait_until "our end to listen" has_port "$pid"
	timeout 120 rping -c -a "$RDMA_VM_ADDRESS" -C $PINGS -S 4000 -V \
		-p "$(sed -n 's/^ready: port //p' "$T/peer.log")" \
		>"$T/rping.log" 2>&1 || fail "rping -c ended with status $?"
	wait_for_end "$pid" || fail "our end over $1 ended with status $?"
	equal "$(grep -c '^ping .*rdma-ping-' "$T/peer.log")" $PINGS pings
}

# Nobody listens until rping has started: it does not say when it has.
calls_well() {
	timeout 120 "$PEER" --uri "$1" --count $PINGS --size 4000 \
		"$RDMA_VM_ADDRESS:$port" >"$T/peer.log" 2>&1
}

# we_call URI: to rping -s, which prints what it has read.
we_call() {
	local pid
	port=$((port + 1))
	timeout 300 rping -s -a "$RDMA_VM_ADDRESS" -p $port -C $PINGS -v \
		-S 4000 >"$T/rping.log" 2>&1 &
	pid=$!
	PIDS+=("$pid")
	wait_until "our end over $1 to be answered" calls_well "$1"
	equal "$(grep -c '^pong ' "$T/peer.log")" $PINGS pongs
	wait "$pid" || true	# its status tells of the end of the connection
	equal "$(grep -c 'ping data: rdma-ping-' "$T/rping.log")" $PINGS \
		"what rping has read"
}

uris=("verbs://${RDMA_DEVICE}0")
[ "$RDMA_DEVICE" != siw ] || uris+=(iwarp://)
for uri in "${uris[@]}"; do
	rping_calls "$uri"
	we_call "$uri"
done
