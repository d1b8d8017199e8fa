#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything at once, for a long time: random models of data and names, counters
# under locks, appends, data bases and git on three mounts, while the server is
# killed and started again, the network of two mounts is cut, reset and stalled, and
# the daemon of one of them is killed.  Each job checks all that it does; at the end
# come the numbers.
#
#	SOAK_SECONDS	how long (15; make soak: SOAK_MINUTES, 60)
#	SEED		of the faults
. "$(dirname "$0")/lib.sh"

SECONDS_ALL=${SOAK_SECONDS:-15}
RANDOM=${SEED:-$$}
say "seed ${SEED:-$$}"
# A few seconds in which all that is started has its memory.
WARM=$((SECONDS_ALL / 10 + 3))

start_server
LISTEN=$ADDRESS
C=$T/c
mount_at "$C"
pid_c=$CLIENT_PID
start_proxy
mount_two rpc_timeo=5

# ---- jobs: each in a folder of its own, until $T/enough is there -------------------

goes_on() {
	[ ! -e "$T/enough" ]
}
# count NAME N: so much was checked.
count() {
	printf '%d\n' "$2" >>"$T/checked.$1"
}
models() { # NAME MODEL DIR...: rounds of new seeds
	local name=$1 seed
	shift
	while goes_on; do
		seed=$((RANDOM * 32768 + RANDOM))
		"$@" --seconds 5 --ops 1000000 --seed $seed >"$T/model.$name" ||
			{ cat "$T/model.$name"; return 1; }
		count "$name" "$(sed -n 's/^\([0-9]*\) operations.*/\1/p' \
			"$T/model.$name" | tail -n 1)"
	done
}
data_job() {
	mkdir "$A/data"
	models data run_data
}
run_data() {
	"$BUILD/tests/posix/data_model" "$@" "$A/data" "$B/data"
}
names_job() {
	mkdir "$A/names"
	models names run_names
}
run_names() {
	"$BUILD/tests/posix/names_model" "$@" "$A/names" "$B/names"
}
# Lives of small files.
files_job() {
	mkdir "$C/files"
	while goes_on; do
		"$BUILD/tests/bench/mount_soak" 2000 "$C/files"
		count files 2000
	done
}
# A number in a file that three mounts raise under flock: none is lost.
raise() { # DIR
	local i=0
	while goes_on; do
		(
			flock 9
			echo $(($(cat "$1/counter") + 1)) >"$1/counter"
		) 9<"$1/counter.lock"
		i=$((i + 1))
	done
	printf '%d\n' $i >"$T/raised.${1##*/}"
	count locks $i
}
raise_a() { raise "$A"; }
raise_b() { raise "$B"; }
raise_c() { raise "$C"; }
# Whole lines of two mounts, each once and in the order of its writer.
append() { # DIR
	local i=0
	exec 4>>"$1/lines"
	while goes_on; do
		printf '%s %d\n' "${1##*/}" $i >&4
		i=$((i + 1))
	done
	printf '%d\n' $i >"$T/appended.${1##*/}"
	count lines $i
}
append_a() { append "$A"; }
append_b() { append "$B"; }
data_base_job() {
	local i=0
	sqlite3 "$B/base" 'create table t (i integer primary key, s text);'
	while goes_on; do
		sqlite3 "$B/base" "insert into t values ($i, 'row $i');"
		i=$((i + 1))
		[ $((i % 50)) -ne 0 ] ||
			equal "$(sqlite3 "$B/base" 'pragma integrity_check;')" ok base
	done
	equal "$(sqlite3 "$B/base" 'select count(*) from t;')" $i rows
	count sqlite $i
}
git_job() {
	local i=0
	export GIT_CONFIG_NOSYSTEM=1 HOME=$T GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b \
		GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
	git init -q "$C/repo"
	while goes_on; do
		printf '%d\n' $i >"$C/repo/file.$((i % 20))"
		git -C "$C/repo" add -A
		git -C "$C/repo" commit -q -m "commit $i"
		i=$((i + 1))
		[ $((i % 20)) -ne 0 ] || git -C "$C/repo" fsck --full
	done
	git -C "$C/repo" fsck --full
	equal "$(git -C "$C/repo" rev-list --count HEAD)" $i commits
	count git $i
}

JOBS=()
start_job() { # NAME
	(
		set -e
		"$1"
		: >"$T/$1.done"
	) >"$T/$1.out" 2>&1 &
	PIDS+=($!)
	JOBS+=("$1 $!")
}

# ---- what a process has ------------------------------------------------------------

has_now() { # PID: resident KiB, descriptors, threads
	printf '%s %s %s' \
		"$(awk '/^VmRSS/ { print $2 }' "/proc/$1/status")" \
		"$(find "/proc/$1/fd" | wc -l)" \
		"$(awk '/^Threads/ { print $2 }' "/proc/$1/status")"
}

# ---- faults ------------------------------------------------------------------------

kills=0 daemon_kills=0 cuts=0 stalls=0 worst_ms=0
now_ms() {
	date +%s%3N
}
restart_server() {
	local killed took
	# This script has nothing open on the mounts that a server would inherit.
	kill_server
	killed=$(now_ms)
	start_server --listen "$LISTEN"
	stat "$C/counter" >/dev/null
	took=$(($(now_ms) - killed))
	kills=$((kills + 1))
	[ $took -le $worst_ms ] || worst_ms=$took
}
# Of one mount only: what the others have after the hour is theirs since its begin.
kill_daemon() {
	CLIENT_PID=$pid_b
	wait_until "the daemon" has_daemon
	kill -KILL "$daemon"
	wait_until "another daemon" is_another "$daemon"
	daemon_kills=$((daemon_kills + 1))
}
# Each kind once, then at random.
faults=0
KINDS=6
# What was under way when a daemon died is lost where the kernel is too old.
[ "$(printf '%s\n' 6.9 "$(uname -r)" | sort -V | head -n 1)" != 6.9 ] || KINDS=7
fault() {
	local kind=$((RANDOM % KINDS))
	[ $faults -ge $KINDS ] || kind=$faults
	faults=$((faults + 1))
	case $kind in
	0 | 1)
		restart_server
		;;
	2)
		proxy cut
		sleep 0.$((RANDOM % 10))
		proxy pass
		cuts=$((cuts + 1))
		;;
	3)
		proxy reset
		cuts=$((cuts + 1))
		;;
	4)
		proxy stall
		sleep 0.$((RANDOM % 10))
		proxy pass
		stalls=$((stalls + 1))
		;;
	5)
		proxy mute
		sleep 0.$((RANDOM % 10))
		proxy reset
		proxy pass
		cuts=$((cuts + 1))
		;;
	6)
		kill_daemon
		;;
	esac
}
# All mounts work again before the next fault, however slow the machine is.
has_moved() { # from SIZES
	[ "$(grep -c '^a ' "$C/lines")" -gt "${1% *}" ] &&
		[ "$(grep -c '^b ' "$C/lines")" -gt "${1#* }" ]
}
lines_now() {
	printf '%s %s' "$(grep -c '^a ' "$C/lines")" "$(grep -c '^b ' "$C/lines")"
}
jobs_live() {
	local job
	for job in "${JOBS[@]}"; do
		! is_gone "${job#* }" || fail "${job% *} has ended: $(tail -n 5 \
			"$T/${job% *}.out")"
	done
}

printf '0\n' >"$C/counter"
: >"$C/counter.lock"
for job in data_job names_job files_job raise_a raise_b raise_c append_a append_b; do
	start_job $job
done
! command -v sqlite3 >/dev/null || start_job data_base_job
! command -v git >/dev/null || start_job git_job

PATIENCE=1200
lines_are_there() {
	grep -q '^a ' "$C/lines" && grep -q '^b ' "$C/lines"
}
wait_until "the first lines" lines_are_there
started=$SECONDS
client_before=
# An hour is long: where it is now, each ten minutes.
tell_at=600
tell_progress() {
	say "after $((SECONDS - started)) s: $kills kills of the server," \
		"$daemon_kills of a daemon, $cuts cuts and resets, $stalls stalls;" \
		"KiB, descriptors, threads: $(has_now "$(daemon_of "$pid_a")")," \
		"$(has_now "$(daemon_of "$pid_c")"), server $(has_now "$SERVER_PID")"
	tell_at=$((tell_at + 600))
}
while [ $((SECONDS - started)) -lt "$SECONDS_ALL" ]; do
	sleep $((RANDOM % 3)).$((RANDOM % 10))
	jobs_live
	fault
	# Counted after it: an answer from before it is none.
	wait_until "work after a fault" has_moved "$(lines_now)"
	if [ -z "$client_before" ] && [ $((SECONDS - started)) -ge $WARM ]; then
		client_before=$(has_now "$(daemon_of "$pid_a")")
		direct_before=$(has_now "$(daemon_of "$pid_c")")
		super_before=$(has_now "$pid_b")
	fi
	[ $((SECONDS - started)) -lt $tell_at ] || tell_progress
done
proxy pass
server_after=$(has_now "$SERVER_PID")
client_after=$(has_now "$(daemon_of "$pid_a")")
direct_after=$(has_now "$(daemon_of "$pid_c")")
super_after=$(has_now "$pid_b")
: >"$T/enough"
for job in "${JOBS[@]}"; do
	# Its exit status may be forgotten by now: many processes have been since.
	wait_until "the end of ${job% *}" is_gone "${job#* }"
	[ -e "$T/${job% *}.done" ] ||
		fail "${job% *}: $(tail -n 5 "$T/${job% *}.out")"
done

# ---- what is there -----------------------------------------------------------------

equal "$(cat "$B/counter")" $(($(cat "$T"/raised.* | paste -s -d+))) \
	"what three mounts counted under a lock"
for dir in a b; do
	grep "^$dir " "$C/lines" | cmp - \
		<(seq -f "$dir %.0f" 0 $(($(cat "$T/appended.$dir") - 1))) ||
		fail "lines of $dir"
done
equal "$(wc -l <"$C/lines")" $(($(cat "$T"/appended.* | paste -s -d+))) lines
! grep -q 'is over\|is gone' "$T/a.log" "$T/b.log" "$T/c.log" ||
	fail "a session was lost"
checked=$(cat "$T"/checked.* | awk '{ n += $1 } END { print n }')
for file in "$T"/checked.*; do
	say "checked: ${file##*.} $(awk '{ n += $1 } END { print n }' "$file")"
done
umount_two
umount_at "$C" "$pid_c"
stop_server

say "soak: $SECONDS_ALL s, $checked operations checked, $kills kills of the server," \
	"$daemon_kills of a daemon, $cuts cuts and resets, $stalls stalls"
say "soak: from kill -9 to the next answered operation: at most $worst_ms ms"
say "soak: KiB, descriptors, threads: mount by the proxy $client_before at ${WARM} s," \
	"$client_after at the end; mount without $direct_before, $direct_after;" \
	"supervisor of killed daemons $super_before, $super_after;" \
	"server (started anew) $server_after"
