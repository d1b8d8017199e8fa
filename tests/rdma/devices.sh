#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Several devices in one server, IPv4 and IPv6 on each, chosen by route; one that is
# taken away under a mount takes nothing with it, is let go, and is used again when it
# is back, by this name or another.
. "$(dirname "$0")/guest.sh"

D0=${RDMA_DEVICE}0
D1=${RDMA_DEVICE}1
PORT=20490

add_device() { # NAME NETDEV
	rdma link add "$1" type "$RDMA_DEVICE" netdev "$2"
}

has_route() { # ADDRESS...: none of them is tentative
	local address
	for address; do
		ip -6 addr show | grep "inet6 $address/" | grep -q tentative &&
			return 1
	done
	return 0
}

# A second one, on an interface of its own; and an IPv6 address for each.
modprobe dummy
ip link add dummy0 type dummy
ip addr add 192.0.2.1/24 dev dummy0
ip addr add 2001:db8:2::1/64 dev dummy0 nodad
ip addr add 2001:db8:1::1/64 dev eth0 nodad
ip link set dummy0 up
wait_until "the addresses" has_route 2001:db8:1::1 2001:db8:2::1
add_device "$D1" dummy0
declare -A device_at
device_at["$RDMA_VM_ADDRESS"]=$D0
device_at["[2001:db8:1::1]"]=$D0
device_at["192.0.2.1"]=$D1
device_at["[2001:db8:2::1]"]=$D1

# How often the server has begun to listen there.
times_ready() { # ADDRESS
	grep -cF "ready: listening on verbs://$1:$PORT (verbs://" \
		"$T/server.log" || true
}

# Emulation may take longer than a lease for what follows.
start_server --listen "any://[::]:$PORT" --insecure --lease-ms 600000
for address in "${!device_at[@]}"; do
	equal "$(times_ready "$address")" 1 "listening at $address"
	grep -F "ready: listening on verbs://$address:$PORT" "$T/server.log" |
		grep -qF "(verbs://${device_at[$address]}," ||
		fail "$address is not of ${device_at[$address]}"
done

say "-- each address, by the device that has it ($SECONDS s)"
sessions_over() {
	grep -c "session .* over verbs://$1," "$T/server.log" || true
}
for address in "${!device_at[@]}"; do
	device=${device_at[$address]}
	before=$(sessions_over "$device")
	# No scheme: the route chooses.
	ADDRESS=$address:$PORT
	mount_at "$T/m"
	head -c 300001 /dev/urandom >"$T/data"
	cp "$T/data" "$T/m/data"
	cmp "$T/data" "$T/m/data"
	equal "$(sessions_over "$device")" $((before + 1)) \
		"sessions over $device, for $address"
	umount_at "$T/m"
done

# ---- a device is taken away under a mount ------------------------------------

# count_at NAME: numbers, one after the other, each synced.
declare -A writers=()
count_at() {
	local file=$T/$1/counted-$1
	(
		number=0
		while [ ! -e "$T/stop" ]; do
			printf '%s\n' $((number += 1)) >>"$file" || exit 1
			sync "$file" || exit 1
			printf '%s\n' $number >"$T/acknowledged-$1"
		done
	) 2>"$T/writer-$1" &
	writers[$1]=$!
	PIDS+=($!)
}

acknowledged() {
	cat "$T/acknowledged-$1" 2>/dev/null || echo 0
}

has_more_than() { # MOUNT COUNT
	[ "$(acknowledged "$1")" -gt "$2" ]
}

goes_on() { # MOUNT
	wait_until "the writer at $1 to go on" has_more_than "$1" \
		"$(acknowledged "$1")"
}

said() { # TIMES WORDS FILE
	[ "$(grep -cE "$2" "$3")" -ge "$1" ]
}

is_back() { # ADDRESS TIMES
	[ "$(times_ready "$1")" -ge "$2" ]
}

# take_away DEVICE: returns when the kernel has let go of it.
take_away() {
	local started=$SECONDS pid
	rdma link del "$1" &
	pid=$!
	PIDS+=("$pid")
	wait_for_end "$pid" || fail "rdma link del $1 ended with $?"
	say "$1 went in $((SECONDS - started)) s"
}

ADDRESS=verbs://$RDMA_VM_ADDRESS:$PORT
mount_at "$T/a"
pid_a=$CLIENT_PID
ADDRESS=verbs://192.0.2.1:$PORT
mount_at "$T/b"
pid_b=$CLIENT_PID
ADDRESS=iwarp://127.0.0.1:$PORT
mount_at "$T/c"
pid_c=$CLIENT_PID
for name in a b c; do
	count_at "$name"
	goes_on "$name"
done
exec {held}<>"$T/b/held"
printf 'before\n' >&"$held"

# go_and_return MOUNT ADDRESS DEVICE NETDEV NAME OTHERS...: and NAME is what it comes
# back by.
go_and_return() {
	local name=$1 address=$2 device=$3 netdev=$4 as=$5 other times
	shift 5
	times=$(times_ready "$address")
	say "-- $device goes ($SECONDS s)"
	take_away "$device"
	said 1 "verbs://$device is gone: nobody can connect to verbs://$address" \
		"$T/server.log" || fail "the server did not say so"
	wait_until "the mount to say so" said 1 "verbs://$device is gone" \
		"$T/$name.log"
	for other; do
		goes_on "$other"
	done
	! is_gone "${writers[$name]}" || fail "the writer at $name ended"
	say "-- $as comes ($SECONDS s)"
	add_device "$as" "$netdev"
	wait_until "the server to listen at $address" is_back "$address" \
		$((times + 1))
	wait_until "the mount to be back" said 1 "verbs://$as leads to" \
		"$T/$name.log"
	goes_on "$name"
}

go_and_return b 192.0.2.1 "$D1" dummy0 "$D1" a c
# What was open is open.
printf 'after\n' >&"$held"
exec {held}>&-
equal "$(cat "$T/b/held")" "$(printf 'before\nafter')" "a file held open"
go_and_return a "$RDMA_VM_ADDRESS" "$D0" eth0 "${RDMA_DEVICE}7" b c

say "-- all that was acknowledged is there ($SECONDS s)"
touch "$T/stop"
for name in a b c; do
	wait_for_end "${writers[$name]}" ||
		fail "the writer at $name was told: $(cat "$T/writer-$name")"
done
for name in a b c; do
	seq "$(acknowledged "$name")" | cmp - "$T/b/counted-$name"
done
umount_at "$T/a" "$pid_a"
umount_at "$T/b" "$pid_b"
umount_at "$T/c" "$pid_c"
stop_server

# As it was, for the tests that follow.
rdma link del "${RDMA_DEVICE}7"
rdma link del "$D1"
add_device "$D0" eth0
ip link del dummy0
ip addr del 2001:db8:1::1/64 dev eth0
