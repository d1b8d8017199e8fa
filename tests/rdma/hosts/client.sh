#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The client's host of two: a tree there and back, what the doctor says of the
# way, packets lost, and the cable cut in the middle.
. "$(dirname "$0")/../guest.sh"
. "$(dirname "$0")/../diagnose.sh"

modprobe -a sch_netem sch_ingress cls_matchall act_gact act_police
shared=$RDMA_VM_SHARED
server=10.9.0.1
# When the other host is gone: the bound of what a mount tells its users.
ANSWER_S=6
CUT_S=60

# on_server COMMAND: in the shell of server.sh; its output is in $T/answer.
commands=0
on_server() {
	commands=$((commands + 1))
	printf '%s\n' "$1" >"$shared/$commands.new"
	mv "$shared/$commands.new" "$shared/$commands.command"
	wait_until "'$1' on the other host" test -e "$shared/$commands.status"
	cp "$shared/$commands.out" "$T/answer"
	equal "$(cat "$shared/$commands.status")" 0 \
		"'$1' on the other host: $(cat "$T/answer")"
}

# Nothing passes in either way, and nobody is told: the link stays up.
cut_cable() {
	tc qdisc add dev eth0 root netem loss 100%
	tc qdisc add dev eth0 ingress
	tc filter add dev eth0 ingress matchall action drop
}
join_cable() {
	tc qdisc del dev eth0 root
	tc qdisc del dev eth0 ingress
}

answers_ping() {
	timeout 2 bash -c "exec 3<>/dev/tcp/$server/22" 2>/dev/null
	ip neigh show "$server" | grep -qE 'REACHABLE|DELAY|STALE'
}

step() {
	say "-- $1 ($SECONDS s)"
}

wait_until "the other host" test -e "$shared/ready"
wait_until "a neighbour" answers_ping
ADDRESS=verbs://$server:20490
M=$T/mnt

step "the doctor, all in order"
diagnose 0 "$RDMAFS" doctor "$ADDRESS"
cat "$T/findings"
found "ok +leaves by eth0 from $RDMA_VM_ADDRESS"
found 'ok +packets of 1500 bytes pass \[path-mtu\]'
found "ok +a mount would use verbs on ${RDMA_DEVICE}0"

step "a tree, there and back"
mount_at "$M" "rpc_timeo=$ANSWER_S"
mkdir "$T/source"
cp -a /usr/include/linux/netfilter_ipv* /usr/include/linux/can "$T/source/"
head -c 3000001 /dev/urandom >"$T/source/big"
cp -a "$T/source" "$M/tree"
diff -r "$T/source" "$M/tree"
umount_at "$M"
mount_at "$M" "rpc_timeo=$ANSWER_S"
diff -r "$T/source" "$M/tree"

step "packets lost"
losses='(retransmissions|out-of-sequence)'
[ "$RDMA_DEVICE" != siw ] || losses=tcp-retransmissions
# More would be too much for rxe, which then gives up.
tc qdisc add dev eth0 root netem loss 1%
for ((try = 0; try < 10; try++)); do
	cp "$T/source/big" "$M/lossy"
	cmp "$T/source/big" "$M/lossy"
	diagnose 0 "$RDMAFS" doctor
	! grep -qE "warning .*\[$losses\]" "$T/findings" || break
done
tc qdisc del dev eth0 root
found "warning +.*\[$losses\]"
advised "$losses" 'packet loss'

step "a switch with a small MTU"
on_server "modprobe -a sch_ingress cls_matchall act_police
	tc qdisc add dev eth0 ingress
	tc filter add dev eth0 ingress matchall action police rate 10gbit \
		burst 10m mtu 1300 conform-exceed drop"
diagnose 1 "$RDMAFS" doctor "$server"
found 'PROBLEM +eth0 sends packets of up to 1500 bytes, but only such of 1280 pass'
advised path-mtu 'the same MTU'
on_server "tc qdisc del dev eth0 ingress"

step "nobody listens there"
umount_at "$M"
on_server "stop_server"
diagnose 1 "$RDMAFS" doctor "$ADDRESS"
found 'PROBLEM .*\[(not-listening|no-answer)\]'
on_server "serve"
diagnose 0 "$RDMAFS" doctor "$ADDRESS"

# Counts, and copies after each number, until the file stop is there.
start_writer() {
	mount_at "$M" "$1"
	cp "$T/source/big" "$M/synced"
	sync "$M/synced"
	rm -f "$M/counted"
	(
		number=0
		while [ ! -e "$T/stop" ]; do
			printf '%s\n' $((number += 1)) >>"$M/counted" || break
			cp "$T/source/big" "$M/copy" || break
		done 2>"$T/writer"
	) &
	writer=$!
	PIDS+=("$writer")
	wait_until "the writer" test -s "$M/counted"
}

count() {
	wc -l <"$M/counted"
}

has_counted() {
	[ "$(count)" -ge "$1" ]
}

# A mount that gives up: nothing hangs, and what can't be done is told as an I/O
# error.
mount_gives_up() { # OPTIONS
	local cut_at
	start_writer "$1"
	cut_cable
	cut_at=$SECONDS
	wait_for_end "$writer" || true
	[ $((SECONDS - cut_at)) -le $CUT_S ] ||
		fail "the writer was told after $((SECONDS - cut_at)) s"
	grep -q 'Input/output error' "$T/writer" ||
		fail "not told of an I/O error: $(cat "$T/writer")"
	step "the writer was told"
	! timeout 30 ls "$M" >"$T/listing" 2>&1 ||
		fail "a mount without a server lists"
	grep -q 'Input/output error' "$T/listing" ||
		fail "not an I/O error: $(cat "$T/listing")"
	# For siw the kernel's TCP tries two minutes long.
	step "the doctor, cut off"
	cut_at=$SECONDS
	diagnose 1 "$RDMAFS" doctor -o mount_timeo=2 "$ADDRESS"
	[ $((SECONDS - cut_at)) -le $CUT_S ] ||
		fail "the doctor took $((SECONDS - cut_at)) s"
	found 'PROBLEM .*\[(no-answer|cm-no-route|no-route)\]'
	step "unmounting a mount without a server"
	umount_at "$M"
	join_cable
	wait_until "a neighbour" answers_ping
}

# A mount that waits: nobody is told, and when the cable is whole again all goes
# on, nothing missing and nothing twice.
mount_waits() { # OPTIONS
	local counted
	start_writer "$1"
	cut_cable
	wait_until "the mount to notice" grep -q 'lost the server' "$T/mnt.log"
	! is_gone "$writer" || fail "the writer ended: $(cat "$T/writer")"
	join_cable
	wait_until "the mount to be back" grep -q 'back at' "$T/mnt.log"
	counted=$(count)
	wait_until "the writer to go on" has_counted $((counted + 2))
	touch "$T/stop"
	wait_for_end "$writer" || fail "the writer ended with status $?"
	[ ! -s "$T/writer" ] || fail "the writer was told: $(cat "$T/writer")"
	seq "$(count)" | cmp - "$M/counted"
	cmp "$T/source/big" "$M/copy"
	rm "$T/stop"
	umount_at "$M"
}

step "the cable is cut under a writer"
mount_waits "rpc_timeo=$ANSWER_S"
step "the same, giving up"
mount_gives_up "soft,timeo=$ANSWER_S,rpc_timeo=$ANSWER_S"

step "the cable is whole again"
mount_at "$M" "rpc_timeo=$ANSWER_S"
cmp "$T/source/big" "$M/synced"
seq "$(count)" | cmp - "$M/counted"
cp "$T/source/big" "$M/after"
cmp "$T/source/big" "$M/after"
umount_at "$M"
diagnose 0 "$RDMAFS" doctor "$ADDRESS"
