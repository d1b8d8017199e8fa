#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a shell has set for its own programs (limits, umask, signals that are ignored
# or blocked, no stdin, stdout or stderr, a working directory that is gone) harms
# neither a mount nor a server that is started there.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root to mount without fusermount3"
case $BUILD in
*/san-*) skip "sanitizers write files that these limits forbid" ;;
esac

M=$T/mnt
mkdir "$M"
head -c 2M /dev/urandom >"$T/data"

limit_of() { # PID NAME
	sed -n "s/^$2  *\([^ ]*\) .*/\1/p" "/proc/$1/limits"
}
is_not_limited() { # PID
	equal "$(limit_of "$1" "Max file size")" unlimited "ulimit -f"
	equal "$(limit_of "$1" "Max cpu time")" unlimited "ulimit -t"
}
has_three() { # PID
	local fd
	for fd in 0 1 2; do
		case $(readlink "/proc/$1/fd/$fd") in
		/dev/null | pipe:* | "$T"/*.log) ;;
		*) fail "fd $fd is $(readlink "/proc/$1/fd/$fd")" ;;
		esac
	done
}

# What a shell may do before.
settings=(
	"ulimit -S -f 0 && ulimit -S -t 3600"
	"ulimit -s 256"
	"umask 777"
	"exec 0<&-"
	"exec 2>&-"
	"exec 0<&- 1>&- 2>&-"
	"mkdir $T/gone && cd $T/gone && rmdir $T/gone"
	"trap '' HUP TERM PIPE XFSZ CHLD USR1"
	blocked
)
# set_up SETTING: what is put in front of a program is in $before.
set_up() {
	before=(bash -c "$1 && exec \"\$@\"" bash)
	[ "$1" != blocked ] || before=(env --block-signal)
}

# ---- mounts -----------------------------------------------------------------------

start_server
for setting in "${settings[@]}"; do
	set_up "$setting"
	timeout 60 "${before[@]}" "$RDMAFS" mount "$ADDRESS/data" "$M" ||
		fail "$setting: the mount ended with status $?"
	CLIENT_PID=$(supervisors_of "$M")
	has_daemon
	is_not_limited "$daemon"
	has_three "$CLIENT_PID"
	has_three "$daemon"
	timeout 60 cp "$T/data" "$M/data" || fail "$setting: cp failed"
	killed=$daemon
	kill -KILL "$killed"
	wait_until "another daemon ($setting)" is_another "$killed"
	timeout 60 cmp "$T/data" "$M/data" || fail "$setting: other bytes"
	is_not_limited "$daemon"
	kill -TERM "$CLIENT_PID"
	wait_until "the end of the mount ($setting)" has_ended "$CLIENT_PID"
	! is_mounted "$M" || fail "$setting: still mounted"
	say "ok: a mount after $setting"
done
# In the foreground it ends in order with its terminal, unless it was told not to.
mount_at "$M"
has_daemon
kill -HUP "$CLIENT_PID"
wait_for_end "$CLIENT_PID" || fail "the mount ended with status $? at SIGHUP"
! is_mounted "$M" || fail "still mounted after SIGHUP"
AS_USER=(env --ignore-signal=HUP)
mount_at "$M"
AS_USER=()
has_daemon
kill -HUP "$CLIENT_PID" "$daemon"
cmp "$T/data" "$M/data"
umount_at "$M"
say "ok: a terminal that goes"
stop_server

# ---- a server ---------------------------------------------------------------------

answers() {
	(exec 5<>"/dev/tcp/127.0.0.1/${ADDRESS##*:}") 2>/dev/null
}
for setting in "${settings[@]}"; do
	set_up "$setting"
	"${before[@]}" "$RDMAFSD" --store "$T/store" --export data=data \
		--listen "$ADDRESS" >"$T/server.out.log" 2>"$T/server.log" &
	SERVER_PID=$!
	PIDS+=("$SERVER_PID")
	wait_until "the server to answer ($setting)" answers
	is_not_limited "$SERVER_PID"
	has_three "$SERVER_PID"
	mount_at "$M"
	cp "$T/data" "$M/server"
	cmp "$T/data" "$M/server"
	umount_at "$M"
	stop_server
	say "ok: a server after $setting"
done

# ---- limits that can't be lifted ----------------------------------------------------

# limit BLOCKS: what is put in front of a program is in $before.
limit() {
	before=(setpriv --bounding-set -sys_resource --inh-caps -sys_resource
		bash -c "ulimit -f $1 && exec \"\$@\"" bash)
}
# The log to a pipe, for that has no limit.
refused() { # COMMAND...
	local said status=0
	said=$("${before[@]}" "$@" 2>&1) || status=$?
	equal $status 1 "status of $1"
	[[ $said == *"ulimit -f"* ]] || fail "$1 said: $said"
}
limit 0
refused "$RDMAFSD" --store "$T/store" --export data=data --listen "$ADDRESS"
limit $((400 << 10))
"${before[@]}" "$RDMAFSD" --store "$T/store" --export data=data \
	--listen "$ADDRESS" >"$T/server.out.log" 2>"$T/server.log" &
SERVER_PID=$!
PIDS+=("$SERVER_PID")
wait_until "the server to answer" answers
limit 0
refused "$RDMAFS" mount "$ADDRESS/data" "$M"
mount_at "$M"
must_fail 1 'File too large' \
	dd if="$T/data" of="$M/large" bs=1M seek=399 count=2 status=none
equal "$(stat -c %s "$M/large")" $((400 << 20)) "what there was room for"
cmp "$T/data" "$M/server"
umount_at "$M"
stop_server
say "ok: a limit that can't be lifted"
