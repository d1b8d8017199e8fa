# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib.sh - what every test in this folder begins with
#
#	. "$(dirname "$0")/lib.sh"
#
# A test is a bash script that ends with exit status 0, or not 0, or 77 when it
# was skipped.  It works in $T, a folder of its own that is removed at the end,
# with every mount below it and every process that was started here.
#
# From the environment: BUILD (build), TMPDIR (/tmp), LONG=1 for the full sizes,
# SMALL=1 for the least that still shows something, KEEP=1 to keep $T.

set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
BUILD=$(cd "$ROOT" && cd "${BUILD:-build}" && pwd)
LONG=${LONG:-}
SMALL=${SMALL:-}
RDMAFS=$BUILD/rdmafs
RDMAFSD=$BUILD/rdmafsd
# Longest wait for something that should come soon, in tenths of a second.
PATIENCE=300

T=$(mktemp -d "${TMPDIR:-/tmp}/rdmafs-test.XXXXXX")
chmod 755 "$T"
PIDS=()
SERVER_PID=
ADDRESS=

# Sanitizers report into files, so that a daemon's report is seen too.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}log_path=$T/sanitizer"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:+$UBSAN_OPTIONS:}log_path=$T/sanitizer:print_stacktrace=1"
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}log_path=$T/sanitizer"

say() {
	printf '%s\n' "$*"
}

skip() {
	say "SKIPPED: $*"
	exit 77
}

fail() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}

# ---- the end -----------------------------------------------------------------

# All mounts below $T, the innermost first.
others_below() {
	awk -v below="$T/" 'index($5, below) == 1 { print $5 }' \
		/proc/self/mountinfo | tac
}

# Mounts of ours below $T, the innermost first.
mounts_below() {
	awk -v below="$T/" '$0 ~ / - fuse\.rdmafs / && index($5, below) == 1 \
		{ print $5 }' /proc/self/mountinfo | tac
}

show_logs() {
	local file
	for file in "$T"/*.log "$T"/sanitizer*; do
		[ -s "$file" ] || continue
		say "---- ${file##*/} (its end)"
		tail -n 40 "$file"
	done
}

# A number that we know may be another's by now.
is_child() { # PID
	local stat
	{ stat=$(<"/proc/$1/stat"); } 2>/dev/null && [[ ${stat##*) } == ?" $$ "* ]]
}

finish() {
	local status=$? pid mount
	trap - EXIT
	set +eu
	cd /
	if compgen -G "$T/sanitizer*" >/dev/null; then
		say "FAILED: a sanitizer has something to say"
		status=1
	fi
	[ "$status" -eq 0 ] || [ "$status" -eq 77 ] || show_logs
	while read -r mount; do
		"$RDMAFS" umount -l "$mount"
	done < <(mounts_below)
	while read -r mount; do
		umount -l "$mount"
	done < <(others_below)
	# All of them first: one may wait for another, in the kernel.
	for pid in "${PIDS[@]}"; do
		is_child "$pid" && kill -KILL "$pid"
	done 2>/dev/null
	for pid in "${PIDS[@]}"; do
		wait "$pid"
	done 2>/dev/null
	if [ -n "${KEEP:-}" ]; then
		say "kept: $T"
	else
		rm -rf --one-file-system "$T"
	fi
	exit "$status"
}
trap finish EXIT
trap 'exit 143' TERM INT HUP

# ---- waiting -----------------------------------------------------------------

pause() {
	sleep 0.1
}

# wait_until WHAT COMMAND...: until COMMAND succeeds, else the test fails.
wait_until() {
	local what=$1 try
	shift
	for ((try = 0; try < PATIENCE; try++)); do
		"$@" && return
		pause
	done
	fail "waited in vain: $what"
}

is_gone() {
	! kill -0 "$1" 2>/dev/null
}

# ask_figures PID LOG WORDS: what the program logs at SIGUSR1 is in $figures, when a
# line with WORDS has come.
ask_figures() {
	local lines
	lines=$(wc -l <"$2")
	kill -USR1 "$1"
	have_come() {
		figures=$(tail -n +$((lines + 1)) "$2")
		grep -q -- "$3" <<<"$figures"
	}
	wait_until "figures in ${2##*/}" have_come "$@"
}

state_of() { # PID
	sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -c1
}
is_stopped() { # PID
	[ "$(state_of "$1")" = T ]
}
# A zombie has: its parent may not collect it at once.
has_ended() { # PID
	local state
	state=$(state_of "$1")
	[ -z "$state" ] || [[ $state == [ZX] ]]
}

# wait_for_end PID: its exit status, if it ends in time.
wait_for_end() {
	wait_until "the end of process $1" is_gone "$1"
	wait "$1"
}

# kill_and_see PID...: each ends by that.
kill_and_see() {
	local pid
	kill -KILL "$@"
	for pid; do
		wait_until "the end of killed process $pid" has_ended "$pid"
	done
}

# ---- server ------------------------------------------------------------------

ready_address() {
	sed -n 's/.*ready: listening on \([a-z]*:[^ ,]*\).*/\1/p' "$1" |
		head -n 1
}

# Without a program, for it is asked for again and again.
is_ready_or_gone() {
	[[ -e $1 && $(<"$1") == *"ready: listening on "* ]] || is_gone "$2"
}

# start_server [OPTION...]: on a free port of loopback, with $T/store and an
# export named data unless the options say otherwise.
start_server() {
	local log=$T/server.log
	${AS_USER[@]+"${AS_USER[@]}"} mkdir -p "$T/store"
	: >"$log"
	case " $* " in
	*" --export "*) ;;
	*) set -- --export data=data "$@" ;;
	esac
	case " $* " in
	*" --listen "*) ;;
	*) set -- --listen iwarp://127.0.0.1:0 "$@" ;;
	esac
	case " $* " in
	*" --store "*) ;;
	*) set -- --store "$T/store" "$@" ;;
	esac
	${AS_USER[@]+"${AS_USER[@]}"} "$RDMAFSD" "$@" 2>"$log" &
	SERVER_PID=$!
	PIDS+=("$SERVER_PID")
	wait_until "the server to be ready" is_ready_or_gone "$log" "$SERVER_PID"
	ADDRESS=$(ready_address "$log")
	[ -n "$ADDRESS" ] || fail "the server did not start"
}

# stop_server: in order; it must end with exit status 0.
stop_server() {
	kill -TERM "$SERVER_PID"
	wait_for_end "$SERVER_PID" || fail "the server ended with status $?"
	SERVER_PID=
}

kill_server() {
	kill -KILL "$SERVER_PID"
	wait "$SERVER_PID" 2>/dev/null || true
	SERVER_PID=
}

# ---- mounts ------------------------------------------------------------------

# What AS_USER holds is put in front of the programs; see become_user.
AS_USER=()

is_mounted() {
	local at rest
	while read -r _ _ _ _ at rest; do
		[ "$at" != "$1" ] || [[ $rest != *" - fuse.rdmafs "* ]] || return 0
	done </proc/self/mountinfo
	return 1
}

is_mounted_or_gone() {
	is_mounted "$1" || is_gone "$2"
}

need_fuse() {
	[ -c /dev/fuse ] || skip "this kernel has no /dev/fuse"
	if [ "$(id -u)" -eq 0 ]; then
		unshare -m true 2>/dev/null ||
			skip "root may not mount here (no CAP_SYS_ADMIN)"
		return
	fi
	[ -w /dev/fuse ] || skip "this user may not open /dev/fuse"
	command -v fusermount3 >/dev/null || skip "fusermount3 is not installed"
}

# mount_at DIR [OPTIONS [EXPORT]]: in the foreground, so that the log is in
# $T/DIR.log and the process in CLIENT_PID; waits until it answers.  OPTIONS win
# over what MOUNT_OPTIONS says of all mounts.
MOUNT_OPTIONS=
mount_at() {
	local point=$1 options=${2:-} export=${3:-data}
	options=$MOUNT_OPTIONS${MOUNT_OPTIONS:+${options:+,}}$options
	local log=$T/${point##*/}.log
	need_fuse
	mkdir -p "$point"
	${AS_USER[@]+"${AS_USER[@]}"} "$RDMAFS" mount "$ADDRESS/$export" \
		"$point" -f ${options:+-o "$options"} 2>>"$log" &
	CLIENT_PID=$!
	PIDS+=("$CLIENT_PID")
	wait_until "the mount" is_mounted_or_gone "$point" "$CLIENT_PID"
	is_mounted "$point" || fail "no mount on $point"
	${AS_USER[@]+"${AS_USER[@]}"} stat -f "$point" >/dev/null
}

# daemon_of PID: what serves the mount, below its supervisor PID; nothing while
# there is none.
daemon_of() {
	tr -d ' ' <"/proc/$1/task/$1/children"
}

# supervisors_of DIR: a line for each process that looks after the mount there, by
# whomever it was started.
supervisors_of() {
	local dir
	for dir in /proc/[0-9]*; do
		[ "$(readlink "$dir/exe" 2>/dev/null)" = "$RDMAFS" ] || continue
		[ "$(cat "$dir/comm")" = rdmafs-super ] || continue
		tr '\0' '\n' <"$dir/cmdline" | grep -qxF "$1" || continue
		printf '%s\n' "${dir#/proc/}"
	done
}

# Of the mount that was made last: in $daemon, once there is one; between two
# daemons there is none.
daemon=
has_daemon() {
	daemon=$(daemon_of "$CLIENT_PID")
	[ -n "$daemon" ]
}
is_another() { # DAEMON
	has_daemon && [ "$daemon" != "$1" ]
}

# umount_at DIR [PID]: the client (CLIENT_PID) must end with exit status 0.
umount_at() {
	local pid=${2:-$CLIENT_PID}
	${AS_USER[@]+"${AS_USER[@]}"} "$RDMAFS" umount "$1"
	! is_mounted "$1" || fail "$1 is still mounted"
	wait_for_end "$pid" || fail "the client ended with status $?"
}

# mount_two [OPTIONS]: of one export, on $A and $B; their processes are $pid_a and
# $pid_b, for umount_two.
mount_two() {
	A=$T/a
	B=$T/b
	mount_at "$A" "$@"
	pid_a=$CLIENT_PID
	mount_at "$B" "$@"
	pid_b=$CLIENT_PID
}
umount_two() {
	umount_at "$A" "$pid_a"
	umount_at "$B" "$pid_b"
}

umount_by_force() { # of $M
	timeout 30 "$RDMAFS" umount -f -l "$M" ||
		fail "umount -f failed or hung: $?"
}
# The mount that was made last ends, with whatever status.
wait_for_client() {
	local status=0
	wait_for_end "$CLIENT_PID" || status=$?
	[ $status -lt 128 ] ||
		fail "the client was ended by signal $((status - 128))"
}

# What looks at all mounts, as df does, is answered of $M.
looks_answer() {
	timeout 30 df "$M" >"$T/df" || fail "df failed or hung: $?"
	grep -q "$M" "$T/df"
	timeout 30 stat -c %F "$M" >"$T/stat" || fail "stat hung"
	equal "$(cat "$T/stat")" directory "the root"
}
# crowd_is COUNT: so many wait for $M, of whom 128 have a request.
crowd_is() {
	local room
	ask_figures "$CLIENT_PID" "$T/mnt.log" 'wait for room'
	room=$(sed -n 's/.*wait for room \([0-9]*\) .*/\1/p' <<<"$figures")
	[ "${room:-0}" -ge $(($1 - 128)) ]
}

# A server, and the mount $M.
serve_and_mount() {
	M=$T/mnt
	start_server "$@"
	mount_at "$M"
}

# ---- a network that fails ------------------------------------------------------

# start_proxy: between mounts and the server; $ADDRESS is the proxy's then.
# proxy COMMAND...: see tests/tools/tcp_proxy.c; returns when it holds.  The
# proxy takes its commands from a FIFO, so that it ends with the script.
PROXY_FD=
PROXY_COUNT=0

has_proxy_lines() {
	[ "$(wc -l <"$T/proxy.out")" -ge "$1" ]
}

start_proxy() {
	mkfifo "$T/proxy.in"
	: >"$T/proxy.out"
	"$BUILD/tests/tools/tcp_proxy" "${ADDRESS##*:}" <"$T/proxy.in" \
		>"$T/proxy.out" &
	PIDS+=($!)
	exec {PROXY_FD}>"$T/proxy.in"
	PROXY_COUNT=1
	wait_until "the proxy" has_proxy_lines 1
	ADDRESS=${ADDRESS%:*}:$(head -n 1 "$T/proxy.out")
}

proxy() {
	printf '%s\n' "$*" >&"$PROXY_FD"
	PROXY_COUNT=$((PROXY_COUNT + 1))
	wait_until "the proxy to obey: $*" has_proxy_lines "$PROXY_COUNT"
	equal "$(tail -n 1 "$T/proxy.out")" "ok $*" "the proxy"
}

# mount_behind_proxy: $M, and the same export on $N, past the proxy; $other is that
# mount's process.
mount_behind_proxy() {
	N=$T/other
	mount_at "$N"
	other=$CLIENT_PID
	start_proxy
	M=$T/mnt
	mount_at "$M"
}

# lose_server: $M is cut off, and knows it.  find_server: it is back.
mount_has_said() { # WORDS MORE-THAN
	[ "$(grep -c -- "$1" "$T/mnt.log")" -gt "$2" ]
}
lose_server() {
	local before
	before=$(grep -c 'lost the server' "$T/mnt.log" || true)
	proxy cut
	wait_until "the loss" mount_has_said 'lost the server' "$before"
}
find_server() {
	local before
	before=$(grep -c 'back at' "$T/mnt.log" || true)
	proxy pass
	wait_until "the return" mount_has_said 'back at' "$before"
}

# Messages of clients, of the server, and cuts at them, since "proxy count": in the
# array $said.
said=()
proxy_counts() {
	printf 'counted\n' >&"$PROXY_FD"
	PROXY_COUNT=$((PROXY_COUNT + 1))
	wait_until "the proxy to count" has_proxy_lines "$PROXY_COUNT"
	read -ra said < <(tail -n 1 "$T/proxy.out")
}

# ---- who locks ------------------------------------------------------------------

# start_holder NAME FILE: a process that locks FILE as it is told; its number is
# in $holder.  tell NAME COMMAND: see tests/tools/lock_hold.c.  answer NAME: what
# it said last, once it has answered all that it was told.
declare -A HOLDER_FD HOLDER_PID HOLDER_TOLD
holder=

start_holder() {
	local fd
	mkfifo "$T/$1.tell"
	: >"$T/$1.said"
	"$BUILD/tests/tools/lock_hold" "$2" <"$T/$1.tell" >>"$T/$1.said" &
	holder=$!
	PIDS+=("$holder")
	exec {fd}>"$T/$1.tell"
	HOLDER_FD[$1]=$fd
	HOLDER_PID[$1]=$holder
	HOLDER_TOLD[$1]=0
}

tell() {
	HOLDER_TOLD[$1]=$((HOLDER_TOLD[$1] + 1))
	printf '%s\n' "$2" >&"${HOLDER_FD[$1]}"
}

has_answered() {
	[ "$(wc -l <"$T/$1.said")" -eq "${HOLDER_TOLD[$1]}" ]
}

answer() {
	wait_until "an answer of $1" has_answered "$1"
	tail -n 1 "$T/$1.said"
}

# order NAME COMMAND ANSWER
order() {
	tell "$1" "$2"
	equal "$(answer "$1")" "$3" "$1: $2"
}

# is_waiting NAME: it is inside of fcntl or flock.
is_waiting() {
	grep -qE "^(72|73) " "/proc/${HOLDER_PID[$1]}/syscall"
}

end_holder() {
	local fd=${HOLDER_FD[$1]}
	printf 'quit\n' >&"$fd"
	exec {fd}>&-
	rm "$T/$1.tell" "$T/$1.said"
	wait_for_end "${HOLDER_PID[$1]}"
}

# ---- what lies before libc ------------------------------------------------------

# has_preload NAME: sets PRELOAD to that library.  False: $reason says why it can't
# be.  need_preload NAME: then the test is skipped.
has_preload() {
	PRELOAD=$BUILD/tests/preload/$1.so
	reason=
	[ -e "$PRELOAD" ] || reason="$PRELOAD is not built"
	case $BUILD in
	*/san-*) reason="a sanitizer wants to be the first library" ;;
	esac
	[ -z "$reason" ]
}
need_preload() {
	has_preload "$1" || skip "$reason"
}

# bad_disk RULE...: of the server's disk from now on (preload/bad_disk.h); none: it
# is well.  serve_from_bad_disk [OPTION...]: a server whose disk that is.
bad_disk() {
	printf '%s\n' "$@" >"$T/rules"
}
serve_from_bad_disk() {
	bad_disk ""
	AS_USER=(env "LD_PRELOAD=$PRELOAD" "BAD_DISK=$T/rules")
	start_server "$@"
	AS_USER=()
}

# ---- random testers -------------------------------------------------------------

# run_model PROGRAM FOLDER...: for some seconds; in the long form a million operations
# by eight at once, each in a folder of its own.  A FOLDER after the first is the
# same by another mount.
run_model() {
	local program=$1 folders job pids=() seconds=12
	shift
	if [ -z "$LONG" ]; then
		[ -z "$SMALL" ] || seconds=6
		"$program" --seconds $seconds --ops 1000000 \
			${SEED:+--seed "$SEED"} "$@"
		return
	fi
	for job in {0..7}; do
		folders=("${@/%//$job}")
		mkdir -p "${folders[0]}"
		"$program" --ops 125000 ${SEED:+--seed $((SEED + job * 1000))} \
			"${folders[@]}" >"$T/model.$job" 2>&1 &
		pids+=($!)
		PIDS+=($!)
	done
	for job in {0..7}; do
		wait "${pids[job]}" || fail "$(cat "$T/model.$job")"
	done
	tail -qn 1 "$T"/model.*
}

# ---- judging -----------------------------------------------------------------

# must_fail STATUS TEXT COMMAND...: ends with STATUS and one complaint on stderr that
# holds TEXT (a regular expression).
must_fail() {
	local status=$1 text=$2 got=0 lines
	shift 2
	"$@" 2>"$T/stderr" >"$T/stdout" || got=$?
	[ "$got" -eq "$status" ] ||
		fail "$* ended with $got, not $status: $(cat "$T/stderr")"
	grep -qE -- "$text" "$T/stderr" ||
		fail "$* did not say '$text' but: $(cat "$T/stderr")"
	lines=$(grep -cv "^info " "$T/stderr" || true)
	[ "$lines" -eq 1 ] ||
		fail "$* said $lines lines, not one: $(cat "$T/stderr")"
	say "ok: $(cat "$T/stderr")"
}

equal() {
	[ "$1" = "$2" ] || fail "${3:-}: '$1' is not '$2'"
}

sum_of() {
	sha256sum <"$1" | cut -d' ' -f1
}

# ---- other users -------------------------------------------------------------

# need_user: skip unless programs can be run as a plain user who may open
# /dev/fuse.  As root the script starts again in a mount namespace of its own,
# where /dev/fuse is a node that everybody may open, as udev makes it.  Sets
# AS_USER.
need_user() {
	if [ "$(id -u)" -ne 0 ]; then
		[ -w /dev/fuse ] || skip "this user may not open /dev/fuse"
		return
	fi
	enter_namespace
	mkdir "$T/dev"
	mount -t tmpfs -o size=64k,mode=755 rdmafs-test "$T/dev"
	mknod "$T/dev/fuse" c 10 229 2>/dev/null ||
		skip "can't make a device node here"
	chmod 666 "$T/dev/fuse"
	mount --bind "$T/dev/fuse" /dev/fuse
	chown 65534:65534 "$T"
	AS_USER=(setpriv --reuid 65534 --regid 65534 --clear-groups)
}

# Start the script again with mounts of its own, unless that was done.  OPTION: what
# else unshare(1) is to make its own.
enter_namespace() { # [OPTION...]
	local status=0
	[ -z "${RDMAFS_TEST_IN_NAMESPACE:-}" ] || return 0
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	unshare -m "$@" true 2>/dev/null ||
		skip "no namespaces of its own (unshare -m $*)"
	RDMAFS_TEST_IN_NAMESPACE=1 unshare -m "$@" bash "$0" || status=$?
	exit "$status"
}
