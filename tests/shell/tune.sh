#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rdmafs tune on loopback: the table is whole, a mount and a server take what it
# advises, and what goes wrong is said.
. "$(dirname "$0")/lib.sh"

serve() { # PORT: rdmafs tune --serve, in TUNE_PID; false: the port is taken
	"$RDMAFS" tune --serve "iwarp://127.0.0.1:$1" 2>"$T/serve.log" &
	TUNE_PID=$!
	PIDS+=("$TUNE_PID")
	wait_until "the other end" is_ready_or_gone "$T/serve.log" "$TUNE_PID"
	[ -n "$(ready_address "$T/serve.log")" ]
}

# A port that nobody has.
port=
for try in $(seq 20); do
	port=$((20000 + RANDOM % 12000))
	if serve "$port"; then
		break
	fi
	port=
done
[ -n "$port" ] || fail "no port to listen on: $(cat "$T/serve.log")"

"$RDMAFS" tune -s 2 "iwarp://127.0.0.1:$port" >"$T/table" ||
	fail "rdmafs tune ended with $?"
cat "$T/table"

# Each block and depth, READ and WRITE, with figures; 16 MiB bound what is in
# flight.
for what in READ WRITE; do
	for block in 16K 32K 64K 128K 256K 1M; do
		for depth in 1 4 16 64; do
			[ "$block/$depth" = 1M/64 ] && continue
			awk -v w=$what -v b=$block -v d=$depth '$1 == w &&
				$2 == b && $3 == d && $5 > 0 && $6 > 0 \
				{ n++ } END { exit n != 1 }' "$T/table" ||
				fail "no row for $what $block $depth"
		done
	done
done
grep -q "^one READ of 4K: .* us asleep, .* us with poll_us=" "$T/table" ||
	fail "nothing about polling"
grep -q "cq_count and cq_usec have no effect" "$T/table" ||
	fail "nothing about moderation"

# A mount and a server take the settings as they are printed.
options=$(sed -n '/^Mount options/{n;s/^ *//p}' "$T/table")
case $options in
read_block=*,read_depth=*,write_block=*,send_depth=*) ;;
*) fail "no mount options: '$options'" ;;
esac
sed -n '/^For the server/,$s/^  //p' "$T/table" >"$T/server.conf"
grep -q "^\[server\]" "$T/server.conf" || fail "no settings for the server"
start_server --config "$T/server.conf"
if [ -c /dev/fuse ]; then
	mount_at "$T/mnt" "$options"
	head -c 3000000 /dev/urandom >"$T/data"
	cp "$T/data" "$T/mnt/data"
	cmp "$T/data" "$T/mnt/data"
	umount_at "$T/mnt"
fi

# One host at a time.
"$RDMAFS" tune -s 20 "iwarp://127.0.0.1:$port" >/dev/null 2>&1 &
busy=$!
PIDS+=("$busy")
is_busy() {
	[ -n "$(ss -Htn state established "( dport = :$port )" 2>/dev/null)" ]
}
if command -v ss >/dev/null; then
	wait_until "the other measurement" is_busy
	must_fail 1 "measures with another host" \
		"$RDMAFS" tune -s 1 "iwarp://127.0.0.1:$port"
fi
kill "$busy"
wait "$busy" 2>/dev/null || true

# The traffic class is on the wire's socket.
if command -v ss >/dev/null; then
	"$RDMAFS" tune -s 20 -o tos=104,source=127.0.0.2 \
		"iwarp://127.0.0.1:$port" >/dev/null 2>&1 &
	busy=$!
	PIDS+=("$busy")
	has_class() {
		ss -Htn --tos state established "( dport = :$port )" |
			grep -A1 "^0 .*127.0.0.2" | grep -q "tos:0x68"
	}
	wait_until "a connection from 127.0.0.2 with tos 104" has_class
	kill "$busy"
	wait "$busy" 2>/dev/null || true
fi

kill -TERM "$TUNE_PID"
wait_for_end "$TUNE_PID" || fail "tune --serve ended with $?"

must_fail 1 "run rdmafs tune --serve" "$RDMAFS" tune -s 1 \
	"iwarp://127.0.0.1:$port"
must_fail 1 "is no rdmafs tune --serve" "$RDMAFS" tune -s 1 \
	"iwarp://${ADDRESS#iwarp://}"
must_fail 2 "takes a number" "$RDMAFS" tune -s nonsense 127.0.0.1
must_fail 2 "needs a host" "$RDMAFS" tune
must_fail 1 "from the address|can't connect|no such|route" "$RDMAFS" tune \
	-s 1 -o source=192.0.2.1 "iwarp://127.0.0.1:$port"
must_fail 1 "." "$RDMAFS" tune --serve "iwarp://192.0.2.1:$port"
stop_server
