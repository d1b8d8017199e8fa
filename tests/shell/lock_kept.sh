#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Locks of ranges, of processes and of open file descriptions, and programs that
# wait for some, live on when the daemon of their mount is killed, and when the
# server is, and when both are; each range as it was.
. "$(dirname "$0")/lib.sh"
[ -r /proc/self/syscall ] || skip "/proc does not tell what a process waits for"

start_server
LISTEN=$ADDRESS
N=$T/other
mount_at "$N"
other=$CLIENT_PID
M=$T/mnt
mount_at "$M"
backs=0

is_back() { # MOUNT COUNT
	[ "$(grep -c 'back at' "$T/$1.log")" -ge "$2" ]
}
kill_daemon() {
	local killed
	wait_until "the daemon" has_daemon
	killed=$daemon
	kill -KILL "$killed"
	wait_until "another daemon" is_another "$killed"
}
end_daemon() {
	kill_daemon
	backs=$((backs + 1))
	wait_until "the return" is_back mnt $backs
}
server_losses=0
end_server() {
	kill_server
	start_server --listen "$LISTEN"
	backs=$((backs + 1))
	server_losses=$((server_losses + 1))
	wait_until "the return" is_back mnt $backs
	wait_until "the other's return" is_back other $server_losses
}
end_both() {
	kill_server
	kill_daemon
	start_server --listen "$LISTEN"
	backs=$((backs + 1))
	server_losses=$((server_losses + 1))
	wait_until "the return" is_back mnt $backs
	wait_until "the other's return" is_back other $server_losses
}

# Exclusive: 0 to 2, 5 to 9.  Shared: 20 to 24.  Exclusive again: 25 to 29.
as_it_was() { # KIND
	order see "$1 w 3 2" ok
	order see "$1 u 3 2" ok
	order see "$1 w 10 10" ok
	order see "$1 u 10 10" ok
	order see "$1 w 30 0" ok
	order see "$1 u 30 0" ok
	order see "$1 r 20 5" ok
	order see "$1 u 20 5" ok
	for range in "0 1" "2 1" "5 1" "9 1" "20 1" "24 1"; do
		order see "$1 w $range" EAGAIN
	done
	order see "$1 r 25 1" EAGAIN
	order see "$1 r 29 1" EAGAIN
	order see "$1 t 0 1" locked
	order see "$1 t 4 1" free
}

for kind in posix ofd; do
	start_holder hold "$M/$kind"
	start_holder see "$N/$kind"
	start_holder here "$M/$kind"
	start_holder there "$N/$kind"
	for what in daemon server both daemon; do
		order hold "$kind w 0 10" ok
		order hold "$kind u 3 2" ok
		order hold "$kind r 20 10" ok
		order hold "$kind w 25 5" ok
		tell here "$kind w 9 12 wait"
		wait_until "the wait, here" is_waiting here
		tell there "$kind r 0 1 wait"
		wait_until "the wait, there" is_waiting there
		end_$what
		as_it_was $kind
		is_waiting here || fail "$what: the wait here has ended"
		is_waiting there || fail "$what: the wait there has ended"
		order hold "$kind u 0 1" ok
		equal "$(answer there)" ok "$what: the lock, there"
		order hold "$kind u 5 5" ok
		is_waiting here || fail "$what: the wait here has ended early"
		order hold "$kind u 20 1" ok
		equal "$(answer here)" ok "$what: the lock, here"
		order see "$kind w 9 1" EAGAIN
		order see "$kind w 21 1" EAGAIN
		order here "$kind u 0 0" ok
		order there "$kind u 0 0" ok
		order hold "$kind u 0 0" ok
		order see "$kind w 0 0" ok
		order see "$kind u 0 0" ok
	done
	for name in hold see here there; do
		end_holder $name
	done
	say "ok: $kind"
done

umount_at "$M"
umount_at "$N" "$other"
stop_server
