#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Locks on one mount and between two are what they are on a local file system:
# lock_rules says the same everywhere.
. "$(dirname "$0")/lib.sh"

RULES=$BUILD/tests/tools/lock_rules
A=$T/a
B=$T/b
[ -r /proc/self/syscall ] || skip "/proc does not tell what a process waits for"
rounds=${SMALL:+3}
rounds=${rounds:-12}
mkdir "$T/local"
"$RULES" "$T/local" "$T/local" >"$T/want" || fail "not even here"

# same_as_here LABEL DIR DIR: in new files.
same_as_here() {
	rm -rf "$2"/* || fail "rm"
	timeout 120 "$RULES" "$2" "$3" >"$T/got" || fail "$1: status $?"
	diff "$T/want" "$T/got" || fail "$1: not as on a local file system"
}

start_server --lease-ms 4000
# Killed below, for good.
mount_at "$A" nosupervisor
pid_a=$CLIENT_PID
same_as_here "one mount" "$A" "$A"
mount_at "$B"
pid_b=$CLIENT_PID
same_as_here "two mounts" "$A" "$B"

# Data that locks guard are seen under the lock, however often it is passed on.
for ((i = 0; i < rounds; i++)); do
	rm "$A/relay"
	"$RULES" "$A" "$B" relay >"$T/got"
	equal "$(tail -n 1 "$T/got")" "relay: 0 failed, sum 1600"
done

# Waits for locks of open file descriptions are no part of a deadlock, as on a local
# file system: who holds one may be let go by anybody.
has_wait() { # MOUNT PID
	ask_figures "$2" "$T/$1.log" 'locks waited'
	grep -q "locks waited for 1," <<<"$figures"
}
start_holder one "$A/ring"
start_holder two "$B/ring"
order one "ofd w 0 1" ok
order two "posix w 1 1" ok
tell one "ofd w 1 1 wait"
wait_until "the first wait" has_wait a "$pid_a"
stat "$A/ring" >/dev/null
tell two "posix w 0 1 wait"
wait_until "the second wait" has_wait b "$pid_b"
kill -USR1 "${HOLDER_PID[one]}"
equal "$(answer one)" EINTR "who waits for a lock of his open"
order one "ofd u 0 0" ok
equal "$(answer two)" ok "who waits for such a lock"
order two "posix u 0 0" ok
end_holder one
end_holder two

# A server that is started anew knows who had what, and who waits for it.
exec 3>"$A/kept" 4>"$A/given"
flock 3
flock 4
flock "$B/given" true &
waiter=$!
wait_until "the wait for a lock" grep -q "^[0-9]* 0x" "/proc/$waiter/syscall"
kill_server
start_server --lease-ms 30000 --listen "$ADDRESS"
! flock -n "$B/kept" true || fail "the server gave a lock away that was held"
! is_gone "$waiter" || fail "the server gave a lock to who waited for it"
flock -u 4
wait_for_end "$waiter" || fail "flock ended with $?"
flock -u 3
flock -n "$B/kept" true || fail "an unlock was lost"
grep -q ' 2 locks reclaimed' "$T/a.log" || fail "the locks were not reclaimed"
exec 3>&- 4>&-
stop_server
start_server --lease-ms 4000 --listen "$ADDRESS"

# A mount that is killed leaves no lock behind its lease, and whoever waits goes on.
exec 3>"$A/held"
flock 3
flock "$B/held" true &
waiter=$!
kill -KILL "$pid_a"
wait "$pid_a" 2>/dev/null || true
wait_for_end "$waiter" || fail "flock ended with $?"
exec 3>&- || true
"$RDMAFS" umount -l "$A"

umount_at "$B" "$pid_b"
stop_server
