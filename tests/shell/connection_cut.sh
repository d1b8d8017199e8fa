#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The connection is reset, stalled, or loses the server's answers, again and
# again under load: nothing fails, each acknowledged byte is there, once.  Also
# when the server is started again, twice, while the client is cut off.
. "$(dirname "$0")/lib.sh"

ROUNDS=${LONG:+200}
ROUNDS=${ROUNDS:-24}
RANDOM=${RF_SEED:-$$}
say "seed ${RF_SEED:-$$}"

start_server
LISTEN=$ADDRESS
start_proxy
M=$T/mnt
mount_at "$M" rpc_timeo=5

# ---- load ---------------------------------------------------------------------

append() {
	local i=0
	exec 4>>"$M/lines"
	while [ ! -e "$T/enough" ]; do
		printf 'line %d\n' $i >&4
		i=$((i + 1))
	done
	printf '%d\n' $i >"$T/lines.count"
}
# A name made twice, or removed twice, fails.
names() {
	local i=0
	while [ ! -e "$T/enough" ]; do
		mkdir "$M/dir.$i"
		mv "$M/dir.$i" "$M/moved.$i"
		rmdir "$M/moved.$i"
		i=$((i + 1))
	done
}
direct() {
	while [ ! -e "$T/enough" ]; do
		dd if="$T/data" of="$M/direct" bs=1M oflag=direct status=none
		cmp "$T/data" "$M/direct"
	done
}
buffered() {
	while [ ! -e "$T/enough" ]; do
		cp "$T/data" "$M/buffered"
		cmp "$T/data" "$M/buffered"
	done
}

start_job() { # NAME
	(
		set -e
		"$1"
	) >"$T/$1.out" 2>&1 &
	PIDS+=($!)
	JOBS+=("$1 $!")
}

head -c 8M /dev/urandom >"$T/data"
JOBS=()
for job in append names direct buffered; do
	start_job $job
done

size_now() {
	stat -c %s "$M/lines" 2>/dev/null || echo 0
}
has_grown() { # from SIZE
	[ "$(size_now)" -gt "$1" ]
}
wait_until "the load" has_grown 0
for ((round = 0; round < ROUNDS; round++)); do
	case $((RANDOM % 4)) in
	0)
		proxy reset
		;;
	1) # answers are lost, of requests that were run
		proxy mute
		sleep 0.$((RANDOM % 3))
		proxy reset
		proxy pass
		;;
	2)
		proxy stall
		sleep 0.$((RANDOM % 3))
		proxy reset
		proxy pass
		;;
	3) # in the middle of a message
		proxy after $((RANDOM * 32 + RANDOM % 32))
		;;
	esac
	before=$(size_now)
	wait_until "work after round $round" has_grown "$before"
done

# Twice, while nobody can tell the client.
proxy cut
for ((i = 0; i < 2; i++)); do
	kill_server
	start_server --listen "$LISTEN"
done
proxy pass
before=$(timeout 60 stat -c %s "$M/lines")
wait_until "work after two restarts" has_grown "$before"

# A connection that hangs is given up after rpc_timeo.
proxy stall
losses=$(grep -c 'lost the server' "$T/mnt.log")
is_given_up() {
	[ "$(grep -c 'lost the server' "$T/mnt.log")" -gt "$losses" ]
}
wait_until "the hanging connection to be given up" is_given_up
proxy reset
proxy pass
before=$(timeout 60 stat -c %s "$M/lines")
wait_until "work after it" has_grown "$before"

: >"$T/enough"
for job in "${JOBS[@]}"; do
	wait_for_end "${job#* }" ||
		fail "${job% *} failed: $(tail -n 3 "$T/${job% *}.out")"
done
seq -f 'line %.0f' 0 $(($(cat "$T/lines.count") - 1)) | cmp - "$M/lines" ||
	fail "not the lines that were written"
cmp "$T/data" "$M/direct"
cmp "$T/data" "$M/buffered"
! compgen -G "$M/dir.*" >/dev/null || fail "names are left"
! grep -q 'is over\|is gone' "$T/mnt.log" || fail "something was lost"
umount_at "$M"
stop_server
say "ok: $(grep -c 'lost the server' "$T/mnt.log") losses, $(cat "$T/lines.count") lines"
