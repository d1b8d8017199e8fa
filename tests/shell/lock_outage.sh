#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whoever is killed, interrupted or given up while he waits for a lock and the
# server can't be reached has no lock afterwards, though the server may have
# granted it, and others get it; what its owner had before is still there, as it
# was.  close() and exec wait for no server.
. "$(dirname "$0")/lib.sh"
[ -r /proc/self/syscall ] || skip "/proc does not tell what a process waits for"

start_server
PORT=${ADDRESS##*:}
mount_behind_proxy
PROXY=$ADDRESS
asked=0

# What the server has been asked for; a wait, or a lock.
server_count() { # FIGURE
	ask_figures "$SERVER_PID" "$T/server.log" 'locks: '
	sed -n "s/.*locks:.* \([0-9]*\) $1.*/\1/p" <<<"$figures" | head -n 1
}
has_asked() { # FIGURE
	[ "$(server_count "$1")" -gt "$asked" ]
}
child=
child_waits() {
	grep -qE "^(72|73) " "/proc/$child/syscall"
}

# begin_wait KIND RANGE: a child of a asks for it, and the answer does not come.
begin_wait() {
	asked=$(server_count "$3")
	proxy mute
	tell a "child $1 w $2"
	child=$(answer a)
	wait_until "the server to be asked" has_asked "$3"
	lose_server
}

# other_has KIND RANGE: b gets it, before long.
other_has() {
	order b "$1 w $2 wait" ok
	order b "$1 u $2" ok
}

# ---- killed, interrupted ---------------------------------------------------------

for kind in posix ofd flock; do
	range="0 200"
	[ $kind != flock ] || range="0 0"
	start_holder a "$M/$kind"
	start_holder b "$N/$kind"
	for how in kill hit; do
		end=EINTR
		[ $how = hit ] || end=killed
		# Its owner has something there, but for posix: that is the parent's.
		[ $kind != ofd ] || order a "ofd r 100 10" ok

		# It waits, and is granted when nobody waits any more.
		order b "$kind w ${range/200/50}" ok
		begin_wait $kind "$range" waited
		order a $how ok
		order a reap $end
		order b "$kind u ${range/200/50}" ok
		find_server
		other_has $kind "${range/200/50}"
		[ $how = kill ] || order a kill ok

		# It is granted at once.
		begin_wait $kind "$range" granted
		order a $how ok
		order a reap $end
		find_server
		other_has $kind "${range/200/50}"
		[ $how = kill ] || order a kill ok

		# It waits, and knows it.
		order b "$kind w ${range/200/50}" ok
		asked=$(server_count waited)
		tell a "child $kind w $range"
		child=$(answer a)
		wait_until "the server to be asked" has_asked waited
		lose_server
		order a $how ok
		order a reap $end
		order b "$kind u ${range/200/50}" ok
		find_server
		other_has $kind "${range/200/50}"
		[ $how = kill ] || order a kill ok

		[ $kind = ofd ] || continue
		order b "ofd w 0 100 wait" ok
		order b "ofd r 100 20 wait" ok
		order b "ofd w 110 90 wait" ok
		order b "ofd w 105 1" EAGAIN
		order b "ofd u 0 0" ok
		order a "ofd u 0 0" ok
	done
	end_holder a
	end_holder b
	say "ok: $kind"
done

# ---- and then the daemon -----------------------------------------------------------

start_holder a "$M/daemon"
start_holder b "$N/daemon"
order a "ofd r 100 10" ok
begin_wait ofd "0 200" granted
order a kill ok
order a reap killed
wait_until "the daemon" has_daemon
killed=$daemon
kill -KILL "$killed"
wait_until "another daemon" is_another "$killed"
find_server
other_has ofd "0 100"
order b "ofd w 105 1" EAGAIN
order b "ofd r 105 1" ok
say "ok: a daemon that is killed"

# ---- and then the server -----------------------------------------------------------

order b "ofd u 0 0" ok
begin_wait ofd "0 200" granted
order a kill ok
order a reap killed
kill_server
start_server --listen "iwarp://127.0.0.1:$PORT"
find_server
other_has ofd "0 100"
order b "ofd w 105 1" EAGAIN
order b "ofd r 105 1" ok
end_holder a
end_holder b
say "ok: a server that is started again"

# ---- nobody waits for an unlock -------------------------------------------------------

start_holder a "$M/exec"
start_holder b "$N/exec"
order a "posix w 0 10" ok
lose_server
tell a "exec true"
wait_for_end "${HOLDER_PID[a]}" || fail "true ended with $?"
start_holder c "$M/exec"
tell c "posix w 0 10 wait"
order b "posix w 0 10" EAGAIN
find_server
equal "$(answer c)" ok "who waits on the same mount"
order c "posix u 0 10" ok
other_has posix "0 10"
rm "$T/a.tell" "$T/a.said"
end_holder b
end_holder c
say "ok: exec"

# ---- soft --------------------------------------------------------------------------

umount_at "$M"
ADDRESS=$PROXY
mount_at "$M" soft,timeo=2
start_holder a "$M/soft"
start_holder b "$N/soft"
begin_wait ofd "0 200" granted
order a reap EIO
order a kill ok
find_server
other_has ofd "0 100"
end_holder a
end_holder b
say "ok: soft"

umount_at "$M"
umount_at "$N" "$other"
stop_server
