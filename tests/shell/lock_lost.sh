#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A lock that the server can't give back, for another has it by now: EIO to who has
# the file open, until he opens it again; and the server does not keep it open for
# him when he has closed it.
. "$(dirname "$0")/lib.sh"

start_server --opens 2
PORT=${ADDRESS##*:}
mount_behind_proxy
starts=0

start_again() {
	starts=$((starts + 1))
	kill_server
	start_server --opens 2 --grace-ms 1 --listen "iwarp://127.0.0.1:$PORT"
}
is_other_back() {
	[ "$(grep -c 'back at' "$T/other.log")" -eq $starts ]
}
opens_two() {
	(exec 5<"$M/one" 6<"$M/two") 2>/dev/null
}

printf 1 >"$N/one"
printf 2 >"$N/two"
printf text >"$N/locked"
wait_until "room for two open files" opens_two

# By a server that was started again, and did not wait for us.
lose_lock() {
	start_holder a "$M/locked"
	order a "posix w 0 10" ok
	lose_server
	start_again
	wait_until "the other's return" is_other_back
	start_holder b "$N/locked"
	order b "posix w 0 10 wait" ok
	find_server
	order a "posix r 20 1" EIO
	equal "$(cat "$M/locked")" text "by another open"
	end_holder b
}

lose_lock
equal "$(grep -c 'does not give a lock back' "$T/mnt.log")" 1 "lines that say so"
end_holder a
wait_until "room for two open files again" opens_two
say "ok: closed"

# Closed after the server was started once more.
lose_lock
lose_server
start_again
find_server
wait_until "the other's return" is_other_back
order a "posix r 20 1" EIO
end_holder a
wait_until "room for two open files again" opens_two
say "ok: started again, and closed"

# Closed while the server is away.
lose_lock
lose_server
end_holder a
find_server
wait_until "room for two open files again" opens_two
say "ok: closed meanwhile"

umount_at "$M"
umount_at "$N" "$other"
stop_server
