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

start_server
mount_at "$A"
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

# A mount that is killed leaves no lock behind, and whoever waits goes on.
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
