#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The doctor on a host with a device: nothing to say while all is in order, and
# each thing that is broken on purpose is found, with what to do about it.
. "$(dirname "$0")/guest.sh"
. "$(dirname "$0")/diagnose.sh"

modprobe dummy
device=${RDMA_DEVICE}0
node=/dev/infiniband/uverbs0

is_active() {
	grep -q ACTIVE "/sys/class/infiniband/$device/ports/1/state"
}

# As nobody, whom limits and modes concern.
as_nobody() {
	setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}

start_server --listen "verbs://$RDMA_VM_ADDRESS:0" --insecure
server=$RDMA_VM_ADDRESS:${ADDRESS##*:}

# In order.
diagnose 0 "$RDMAFS" doctor "verbs://$server"
cat "$T/findings"
found "^$device \(.*$RDMA_DEVICE\)"
found 'ok +opens; .*\[device\]'
found 'ok +active, .*\[port\]'
found 'ok +/dev/infiniband/rdma_cm can be used'
found "ok +rdma_cm leads there by $device \[device-of-route\]"
found 'ok +rdmafsd answers over verbs'
found "ok +a mount would use verbs on $device"
if [ "$RDMA_DEVICE" = rxe ]; then
	found "ok +[0-9]+ GIDs, [0-9]+ of RoCE v2; .*$RDMA_VM_ADDRESS"
	found 'note +the active MTU is 1024 of 4096; eth0 has 1500'
	found 'rights by memory windows'
else
	found 'no memory windows'
fi

# What a mount has registered.
M=$T/mnt
mount_at "$M"
head -c 300000 /dev/urandom >"$M/file"
diagnose 0 "$RDMAFS" doctor "verbs://$server"
sed -n "/^rdmafs, process $(daemon_of "$CLIENT_PID")\$/,/^[^ ]/p" "$T/findings" >"$T/part"
cat "$T/part"
grep -qE 'holds [1-9][0-9]* regions of (6[4-9]|[7-9][0-9]) MiB in all, 1 queue pairs, 1 completion queues of up to [0-9]{3,} entries' \
	"$T/part" || fail "not what the mount holds: $(cat "$T/findings")"
grep -qE 'fabric: name=verbs level=(window|session) registrations=1 .*cq_overruns=0' \
	"$T/part" || fail "not the mount's figures: $(cat "$T/part")"
umount_at "$M"

# Locked memory.
diagnose 1 as_nobody bash -c 'ulimit -l 1024 && exec "$@"' - "$RDMAFS" doctor
found 'PROBLEM +1024 KiB of memory may be locked, but 64 MiB would be registered'
advised memlock 'ulimit -l.*LimitMEMLOCK'
diagnose 0 as_nobody bash -c 'ulimit -l 65536 && exec "$@"' - "$RDMAFS" doctor
if [ "$RDMA_DEVICE" = rxe ]; then
	diagnose 1 as_nobody bash -c 'ulimit -l 65536 && exec "$@"' - \
		"$RDMAFSD" --doctor
	found 'PROBLEM .*\[memlock\]'
	advised memlock '--staging'
fi

# Nodes: not readable, not there.
chmod 600 "$node"
diagnose 1 as_nobody "$RDMAFS" doctor -o memory=8M
found "PROBLEM +$node can.t be opened: Permission denied \[node-access\]"
chmod 666 "$node"
IFS=: read -r major minor </sys/class/infiniband_verbs/uverbs0/dev
rm "$node"
diagnose 1 "$RDMAFS" doctor "$server"
found "PROBLEM +$node is not there \[node-missing\]"
mknod -m 666 "$node" c "$major" "$minor"
diagnose 0 "$RDMAFS" doctor

# A route that leads elsewhere.
ip link add dummy0 type dummy
ip addr add 192.0.2.1/24 dev dummy0
ip link set dummy0 up
diagnose 1 "$RDMAFS" doctor -o mount_timeo=500ms verbs://192.0.2.7
found 'ok +leaves by dummy0 from 192.0.2.1'
found "PROBLEM +the route goes by dummy0, which has no RDMA device; $device is on eth0"
advised route-not-rdma 'network of eth0'
diagnose 1 "$RDMAFS" doctor -o mount_timeo=500ms 192.0.2.7
found 'warning .*\[route-not-rdma\]'
found 'PROBLEM .*\[no-answer\]'
diagnose 0 "$RDMAFS" doctor
ip link del dummy0

# A small MTU.
ip link set eth0 mtu 600
diagnose 0 "$RDMAFS" doctor
if [ "$RDMA_DEVICE" = rxe ]; then
	found 'warning +the active MTU is only (256|512).*\[mtu-small\]'
	advised mtu-small 'ip link set eth0 mtu'
fi
ip link set eth0 mtu 1500

# Nobody listens any more.
stop_server
diagnose 1 "$RDMAFS" doctor "verbs://$server"
found 'PROBLEM +nobody listens there over verbs \[not-listening\]'
diagnose 0 "$RDMAFSD" --doctor --listen "verbs://$server"
found 'note +nobody listens there .*\[not-listening\]'

# A port that is down; an address that is gone.
ip link set eth0 down
diagnose 1 "$RDMAFS" doctor
found 'PROBLEM +the port is not active: 1: DOWN'
advised port-down 'ip link set eth0 up'
ip link set eth0 up
wait_until "the port" is_active
if [ "$RDMA_DEVICE" = rxe ]; then
	echo 1 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6
	ip addr flush dev eth0
	diagnose 0 "$RDMAFS" doctor
	found 'warning .*\[gid-link-local\]'
	advised gid-link-local 'give eth0 an IP address'
	ip addr add "$RDMA_VM_ADDRESS/24" dev eth0
fi
diagnose 0 "$RDMAFS" doctor

# Without the module that connects.
modprobe -r rdma_ucm
diagnose 1 "$RDMAFS" doctor
found 'PROBLEM +/dev/infiniband/rdma_cm is not there.*\[no-rdma-cm\]'
advised no-rdma-cm 'modprobe rdma_ucm'

# Without a device.
rdma link del "$device"
diagnose 0 "$RDMAFS" doctor
found 'note +no RDMA device is here'

# As it was, for the tests that follow.
modprobe rdma_ucm
rdma link add "$device" type "$RDMA_DEVICE" netdev eth0
