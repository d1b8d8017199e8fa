#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What surrounds a killed daemon (daemon_killed.sh): an upgrade under load, a
# supervisor that is killed, a mount without one, daemons that die at once, and a
# kernel that does not send requests again.
. "$(dirname "$0")/lib.sh"
command -v prlimit >/dev/null || skip "prlimit is not installed"

start_server
M=$T/mnt

# ---- upgrade --------------------------------------------------------------------

mount_at "$M"
cp "$RDMAFS" "$T/rdmafs-new"
"$BUILD/tests/tools/each_once" "$M" a >"$T/count" 2>"$T/writer.log" &
writer=$!
PIDS+=("$writer")
is_busy() {
	[ -s "$M/log" ]
}
wait_until "the writer" is_busy
for program in "$T/rdmafs-new" "$RDMAFS"; do
	has_daemon
	before=$daemon
	"$program" upgrade "$M"
	is_another "$before" || fail "the daemon is the one before"
	equal "$(readlink "/proc/$daemon/exe")" "$program" "the program"
done
kill -TERM "$writer"
wait "$writer" || fail "the writer ended with status $?"
cmp <(seq -f 'a %.0f' 0 $(($(cat "$T/count") - 1))) "$M/log"
! grep -q 'ended by signal' "$T/mnt.log" || fail "a daemon was killed"
must_fail 1 'no rdmafs is mounted' "$RDMAFS" upgrade "$T"

# ---- to a program that keeps other things ----------------------------------------

sed 's/rdmafs-k/rdmafs-j/g' "$RDMAFS" >"$T/rdmafs-other"
chmod 755 "$T/rdmafs-other"
! cmp -s "$RDMAFS" "$T/rdmafs-other" || fail "the program is the same"
exec 3>>"$M/stays"
has_daemon
before=$daemon
must_fail 1 'did not go on with the mount, and the one before does' \
	"$T/rdmafs-other" upgrade "$M"
grep -q "this version can't take it over" "$T/mnt.log" || fail "it says not why"
printf 'text\n' >&3
equal "$(cat "$M/stays")" text "bytes"
is_another "$before" || fail "the daemon is the one before"
equal "$(readlink "/proc/$daemon/exe")" "$RDMAFS" "the program"
exec 3>&-
umount_at "$M"

# ---- the supervisor is killed ------------------------------------------------------

mount_at "$M"
exec 3>>"$M/kept"
has_daemon
kill -KILL "$CLIENT_PID"
wait "$CLIENT_PID" 2>/dev/null || true
wait_until "the daemon to say so" grep -q 'supervisor .* is gone' "$T/mnt.log"
printf 'text\n' >&3
equal "$(cat "$M/kept")" text "bytes"
exec 3>&-
must_fail 1 'has no supervisor' "$RDMAFS" upgrade "$M"
"$RDMAFS" umount "$M"
wait_until "the end of the daemon" is_gone "$daemon"

# ---- without one ---------------------------------------------------------------------

mount_at "$M" nosupervisor
equal "$(daemon_of "$CLIENT_PID")" "" "a process below"
umount_at "$M"

# ---- a kernel that sends nothing again -------------------------------------------------

mount_at "$M" no_resend
exec 3<"$M/kept"
has_daemon
before=$daemon
kill -STOP "$SERVER_PID"
stat "$M/kept" >"$T/stat.out" 2>&1 &
asker=$!
wait_until "a request" grep -qE '^(4|5|6|262|332) ' "/proc/$asker/syscall"
kill -KILL "$before"
wait_until "another daemon" is_another "$before"
status=0
wait "$asker" || status=$?
equal $status 1 "status of what was not answered"
grep -q 'Input/output error' "$T/stat.out" || fail "$(cat "$T/stat.out")"
kill -CONT "$SERVER_PID"
equal "$(cat <&3)" text "bytes of what was open"
exec 3<&-
umount_at "$M"

# ---- daemons that die at once ------------------------------------------------------------

mount_at "$M"
exec 3<"$M/kept"
# No program starts with so little room for its words.
prlimit --pid "$CLIENT_PID" --stack=4096:4096
has_daemon
kill -KILL "$daemon"
wait_until "giving up" grep -q 'daemons in a row died at once' "$T/mnt.log"
status=0
cat "$M/kept" 2>"$T/stderr" || status=$?
equal $status 1 "status of cat"
grep -q 'Input/output error' "$T/stderr" || fail "$(cat "$T/stderr")"
exec 3<&-
"$RDMAFS" umount "$M"
status=0
wait_for_end "$CLIENT_PID" || status=$?
equal $status 1 "status of a mount that was given up"
stop_server
