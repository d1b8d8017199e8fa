#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# While the server is dead: programs wait, and any of them can be killed; df and
# stat of the mount answer; umount works, plain, lazily and by force.
. "$(dirname "$0")/lib.sh"

serve_and_mount
LISTEN=$ADDRESS

has_in_flight() {
	ask_figures "$CLIENT_PID" "$T/mnt.log" 'in flight'
	grep -q "in flight $1," <<<"$figures"
}
is_away() {
	[ "$(grep -c 'lost the server' "$T/mnt.log")" -eq "$1" ]
}
is_back() {
	[ "$(grep -c 'back at' "$T/mnt.log")" -eq "$1" ]
}
start_again() {
	start_server --listen "$LISTEN"
}

mkdir "$M/dir"
printf text >"$M/file"
stat -f "$M" >/dev/null

# ---- killed while they wait ----------------------------------------------------

# A writer whose write is on its way when the server dies, and a reader and
# others that come later.
dd if=/dev/zero of="$M/target" bs=4k oflag=direct status=none &
writer=$!
PIDS+=("$writer")
wait_until "the first write" test -s "$M/target"
kill -STOP "$SERVER_PID"
wait_until "the server to stop" is_stopped "$SERVER_PID"
wait_until "the last write" has_in_flight 1
kill_server
wait_until "the loss" is_away 1
waiting=()
# The first is in so many groups that /proc tells of them before all else on
# more than a page.
many=()
[ "$(id -u)" -ne 0 ] ||
	many=(setpriv --groups "$(seq -s , 1000000000 1000000699)")
${many[@]+"${many[@]}"} cat "$M/file" >/dev/null &
waiting+=($!)
ls "$M/dir" >/dev/null &
waiting+=($!)
dd if=/dev/zero of="$M/other" bs=1M count=1 status=none &
waiting+=($!)
mkdir "$M/new" &
waiting+=($!)
PIDS+=("${waiting[@]}")
wait_until "those who wait" has_in_flight 5
! has_ended "$writer" || fail "the writer ended by itself"
kill_and_see "$writer"
for pid in "${waiting[@]}"; do
	! has_ended "$pid" || fail "process $pid did not wait"
done
kill -TERM "${waiting[0]}"
kill -INT "${waiting[1]}"
kill -KILL "${waiting[2]}" "${waiting[3]}"
# Interrupts are ignored in the background of a script.
kill -KILL "${waiting[1]}"
for pid in "${waiting[@]}"; do
	wait_until "the end of killed process $pid" has_ended "$pid"
done

# What the dead writer had sent is over before anything newer.
printf newer >"$M/target" &
newer=$!
PIDS+=("$newer")
start_again
wait_until "the return" is_back 1
wait_for_end "$newer" || fail "a write that waited failed"
equal "$(cat "$M/target")" newer "what was written last"
[ ! -e "$M/new" ] || fail "what was killed before it was sent has been done"
say "ok: whoever waits can be killed"

# ---- df and stat ----------------------------------------------------------------

kill_server
wait_until "the loss" is_away 2
cat "$M/file" >"$T/late" &
reader=$!
PIDS+=("$reader")
timeout 30 df "$M" >"$T/df" || fail "df failed or hung: $?"
grep -q "$M" "$T/df"
timeout 30 stat -c %F "$M" >"$T/stat" || fail "stat hung"
equal "$(cat "$T/stat")" directory "the root"
# Of everything, as people type it; what else is mounted here may be broken.
status=0
timeout 30 df >"$T/df" 2>"$T/stderr" || status=$?
[ $status -lt 124 ] || fail "df of everything hung: $status"
grep -q "$M" "$T/df" || fail "df of everything left us out: $(cat "$T/stderr")"
! has_ended "$reader" || fail "the reader did not wait"
start_again
wait_for_end "$reader" || fail "the reader failed"
equal "$(cat "$T/late")" text "what it read"
say "ok: df and stat answer"

# ---- umount ----------------------------------------------------------------------

kill_server
wait_until "the loss" is_away 3
timeout 30 "$RDMAFS" umount "$M" || fail "umount failed or hung: $?"
wait_for_end "$CLIENT_PID" || fail "the client ended with status $?"
say "ok: plainly"

start_again
mount_at "$M"
: >"$T/mnt.log"
kill_server
wait_until "the loss" is_away 1
cat "$M/file" >/dev/null 2>"$T/stderr" &
reader=$!
PIDS+=("$reader")
wait_until "a reader that waits" has_in_flight 1
umount_by_force
status=0
wait_for_end "$reader" || status=$?
equal $status 1 "status of the reader"
grep -qi 'abort\|not connected\|input/output' "$T/stderr" ||
	fail "the reader said: $(cat "$T/stderr")"
wait_for_client
say "ok: by force"

# SIGTERM of the mount program, as at shutdown.
start_again
mount_at "$M"
kill_server
kill -TERM "$CLIENT_PID"
wait_for_client
! is_mounted "$M" || fail "still mounted"
say "ok: by SIGTERM"
