#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A plain user's mount that others may use, on a machine where /proc hides other users'
# processes (hidepid=2): they are served by their user and first group, a signal that
# does not end them ends no call, and the log says once what can't be known.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root, to hide processes"
need_user
printf 'user_allow_other\n' >"$T/fuse.conf"
[ -e /etc/fuse.conf ] || skip "there is no /etc/fuse.conf"
mount --bind "$T/fuse.conf" /etc/fuse.conf
mount -t proc -o hidepid=2 rdmafs-test /proc 2>/dev/null ||
	skip "can't hide processes here"

start_server
M=$T/mnt
mkdir "$M"
chown 65534:65534 "$M"
mount_at "$M" allow_other
other=(setpriv --reuid 1001 --regid 1001 --groups 2000)
"${AS_USER[@]}" chmod 777 "$M"
"${AS_USER[@]}" bash -c "echo mine >$M/mine"
"${other[@]}" bash -c "echo theirs >$M/theirs"
equal "$(stat -c %u:%g "$M/theirs")" 1001:1001 "whose it is"
equal "$("${other[@]}" cat "$M/mine")" mine "what another's file holds"

# Somebody waits for the server, and a timer of his goes off.
is_waiting_there() { # PID
	grep -q "fuse\|request_wait" "/proc/$1/wchan" 2>/dev/null ||
		grep -q '^257 ' "/proc/$1/syscall"
}
has_interrupts() {
	ask_figures "$CLIENT_PID" "$T/mnt.log" 'interrupts'
	[ "$(sed -n 's/.*interrupts \([0-9]*\),.*/\1/p' <<<"$figures" |
		head -n 1)" -ge 1 ]
}
kill -STOP "$SERVER_PID"
# shellcheck disable=SC2016 # perl's
"${other[@]}" perl -e '$SIG{USR1} = sub {}; open(my $f, "<", $ARGV[0]) or die "$!\n";
	print <$f>' "$M/theirs" >"$T/said" 2>&1 &
waiter=$!
PIDS+=("$waiter")
wait_until "somebody who waits" is_waiting_there "$waiter"
kill -USR1 "$waiter"
wait_until "the interrupt" has_interrupts
kill -CONT "$SERVER_PID"
wait_for_end "$waiter" || fail "he was told: $(cat "$T/said")"
equal "$(cat "$T/said")" theirs "what he has read"
equal "$(grep -c 'hidepid' "$T/mnt.log")" 1 "lines that say so"
umount_at "$M"
stop_server
say "ok: hidden processes"
