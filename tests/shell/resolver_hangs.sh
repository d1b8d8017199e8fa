#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The server is away, and so is the name server that knows where it is: a mount that is
# taken down does not wait for that one.
. "$(dirname "$0")/lib.sh"
enter_namespace -n
command -v ip >/dev/null || skip "ip is not installed"

# A name server that says nothing: what goes there is lost on loopback.
ip link set lo up
ip route add 192.0.2.0/24 dev lo
for file in hosts resolv.conf nsswitch.conf; do
	: >"$T/$file"
	mount --bind "$T/$file" "/etc/$file" || skip "no /etc/$file"
done
printf 'hosts: files dns\n' >/etc/nsswitch.conf
printf 'nameserver 192.0.2.53\noptions timeout:30 attempts:5\n' >/etc/resolv.conf
printf '127.0.0.1 storage.test\n' >/etc/hosts

start_server
ADDRESS=iwarp://storage.test:${ADDRESS##*:}
M=$T/mnt
mount_at "$M"
printf text >"$M/file"
has_daemon
: >/etc/hosts
kill_server
wait_until "the loss" grep -q 'lost the server' "$T/mnt.log"
# A question to the name server is under way.
asks() {
	grep -q ' 350200C0:0035 ' /proc/net/udp
}
wait_until "a question" asks
umount_at "$M"
say "ok: the mount ended while it asked"
