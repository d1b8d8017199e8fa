#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A network over which no large block ever arrives: a hard mount tries for ever,
# says so once, and goes on when it can; a soft one gives up.
. "$(dirname "$0")/lib.sh"

start_server
start_proxy
M=$T/mnt
S=$T/soft
mount_at "$M" write_part=1M
client=$CLIENT_PID
mount_at "$S" soft,timeo=3
soft=$CLIENT_PID
head -c 1M /dev/urandom >"$T/data"
cp "$T/data" "$M/read"

has_lost() { # COUNT
	[ "$(grep -c 'lost the server' "$T/mnt.log")" -ge "$1" ]
}
is_told() { # COUNT
	[ "$(grep -c 'times on their way' "$T/mnt.log")" -eq "$1" ]
}

# ---- a soft mount -------------------------------------------------------------

proxy short 400000
proxy reset
! timeout 100 dd if="$S/read" of=/dev/null bs=1M iflag=direct status=none \
	2>"$T/stderr" || fail "a soft mount read it"
grep -q 'Input/output error' "$T/stderr" || fail "soft: $(cat "$T/stderr")"
umount_at "$S" "$soft"
say "ok: soft"

# ---- a hard one ---------------------------------------------------------------

dd if="$M/read" of="$T/read" bs=1M iflag=direct status=none 2>"$T/job.err" &
reader=$!
PIDS+=("$reader")
wait_until "it to be told" is_told 1
before=$(grep -c 'lost the server' "$T/mnt.log")
wait_until "more losses" has_lost $((before + 3))
! is_gone "$reader" || fail "the reader has ended: $(cat "$T/job.err")"
is_told 1 || fail "it was told more than once"
proxy short 0
wait_for_end "$reader" || fail "the reader failed: $(cat "$T/job.err")"
cmp "$T/data" "$T/read"
say "ok: a read, after $(grep -c 'lost the server' "$T/mnt.log") losses"

proxy short 400000
proxy reset
dd if="$T/data" of="$M/written" bs=1M oflag=direct status=none \
	2>"$T/job.err" &
writer=$!
PIDS+=("$writer")
wait_until "it to be told again" is_told 2
! is_gone "$writer" || fail "the writer has ended: $(cat "$T/job.err")"
proxy short 0
wait_for_end "$writer" || fail "the writer failed: $(cat "$T/job.err")"
cmp "$T/data" "$M/written"
say "ok: a write, after $(grep -c 'lost the server' "$T/mnt.log") losses"

# Who waits in such a pause can be killed.
proxy short 400000
proxy reset
dd if="$M/read" of=/dev/null bs=1M iflag=direct status=none 2>/dev/null &
reader=$!
PIDS+=("$reader")
wait_until "it to be told once more" is_told 3
kill -KILL "$reader"
wait_until "the killed reader to end" is_gone "$reader"
proxy short 0
cmp "$T/data" "$M/read"
umount_at "$M" "$client"
stop_server
