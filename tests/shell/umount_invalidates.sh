#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Pages that are to be dropped, for another mount has changed the file, wait for a READ
# that the server does not answer.  rdmafs umount ends all the same, and SIGTERM to the
# mount does: nobody uses it any more.  If the mount dies, who uses it waits for that page,
# too, until rdmafs umount -f ends it.
. "$(dirname "$0")/lib.sh"

need_preload bad_disk
[ "$(id -u)" -eq 0 ] || skip "needs root to mount without fusermount3"

# A thread of the daemon waits in the kernel for a page.
invalidates() {
	grep -qs 'fuse_reverse_inval_inode' /proc/"$daemon"/task/*/stack
}
in_flight_is() {
	ask_figures "$CLIENT_PID" "$T/mnt.log" 'in flight'
	grep -q "in flight $1," <<<"$figures"
}
block_invalidation() { # [OPTIONS]
	bad_disk ""
	mount_at "$M" "read_ahead=128${1:+,$1}"
	has_daemon || daemon=$CLIENT_PID
	dd if="$M/file" of=/dev/null bs=4k count=1 status=none
	bad_disk "read /data/ hang"
	dd if="$M/file" of=/dev/null bs=4k count=1 skip=1000 status=none &
	reader=$!
	PIDS+=("$reader")
	wait_until "the READ" in_flight_is 1
	printf changed | dd of="$N/file" conv=notrunc status=none
	stat "$M/file" >/dev/null &
	looker=$!
	PIDS+=("$looker")
	wait_until "pages to be dropped" invalidates
}
# The kernel must not be left waiting if it fails.
ends() { # COMMAND...
	"$@" || { bad_disk ""; fail "did not end: $*"; }
}

serve_from_bad_disk
N=$T/other
mount_at "$N"
other=$CLIENT_PID
head -c 8M /dev/urandom >"$N/file"
M=$T/mnt
[ -r /proc/self/stack ] || skip "/proc does not show where a thread waits"

block_invalidation
kill_and_see "$reader" "$looker"
ends timeout 60 "$RDMAFS" umount "$M"
! is_mounted "$M" || fail "still mounted"
wait_for_end "$CLIENT_PID" || fail "the client ended with status $?"
say "ok: umount"

block_invalidation
kill_and_see "$reader" "$looker"
kill -TERM "$CLIENT_PID"
PATIENCE=600 ends wait_until "the end of the mount" is_gone "$CLIENT_PID"
wait "$CLIENT_PID" || fail "the client ended with status $?"
say "ok: SIGTERM"

# What is left of the daemon has the connection open, and waits in the kernel.
dies() { # PID...
	kill -KILL "$@"
	timeout 60 "$RDMAFS" umount -f -l "$M" || fail "umount -f failed: $?"
	wait_until "the end of the reader" has_ended "$reader"
	wait_until "the end of who looks" has_ended "$looker"
	wait_until "the end of the client" is_gone "$1"
	! is_mounted "$M" || fail "still mounted"
}
block_invalidation nosupervisor
dies "$CLIENT_PID"
say "ok: no supervisor"
block_invalidation
dies "$CLIENT_PID" "$daemon"
say "ok: supervisor and daemon"

bad_disk ""
umount_at "$N" "$other"
stop_server
