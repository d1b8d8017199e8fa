#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A thousand programs that wait for locks are in nobody's way, neither while the
# server is there, nor while it is away, nor for another daemon; and each gets its
# lock.
. "$(dirname "$0")/lib.sh"

count=${SMALL:+200}
count=${count:-1000}
start_server
LISTEN=$ADDRESS
M=$T/mnt
N=$T/other
mount_at "$M"
client=$CLIENT_PID
mount_at "$N"
other=$CLIENT_PID

waits() { # COUNT: so many callers are kept
	ask_figures "$other" "$T/other.log" 'locks waited'
	grep -q "locks waited for $1," <<<"$figures"
}
# Nobody else has to wait.
all_else_goes_on() {
	cp /usr/include/stdio.h "$N/copy" &&
		cmp /usr/include/stdio.h "$N/copy" &&
		ls -l "$N" >/dev/null && rm "$N/copy"
}
have_ended() {
	local said
	tell b waited
	said=$(answer b)
	[[ $said == *" 0 failed" ]] || fail "waiters: $said"
	[ "${said%% *}" -eq "$1" ]
}
is_lost() {
	grep -q 'lost the server' "$T/other.log"
}
is_back() {
	grep -q 'back at' "$T/other.log"
}

start_holder a "$M/file"
start_holder b "$N/file"

# ---- the server is there --------------------------------------------------------

order a "flock w 0 0" ok
order a "posix w 0 1" ok
order b "waiters $((count / 2)) flock 0 0" ok
order b "waiters $((count / 2)) posix 0 1" ok
order b go ok
wait_until "all to wait" waits "$count"
export -f all_else_goes_on
export N
timeout 60 bash -c all_else_goes_on || fail "$count waiters are in the way"
order a "flock u 0 0" ok
order a "posix u 0 1" ok
wait_until "all to get the lock" have_ended "$count"
say "ok: $count waiters"

# ---- it is not --------------------------------------------------------------------

order a "flock w 0 0" ok
order a "posix w 0 1" ok
order b "waiters $((count / 2)) flock 0 0" ok
order b "waiters $((count / 2)) posix 0 1" ok
kill_server
wait_until "the loss" is_lost
order b go ok
wait_until "all to wait" waits "$count"
timeout 60 df "$N" >/dev/null || fail "df hangs beside $count waiters"
cat "$N/file" &
reader=$!
PIDS+=("$reader")
killed=$(daemon_of "$other")
kill -KILL "$killed"
wait_until "another daemon" is_another "$killed"
wait_until "all to wait, in another daemon" waits "$count"
start_server --listen "$LISTEN"
wait_until "the return" is_back
timeout 60 bash -c all_else_goes_on || fail "$count waiters are in the way"
wait_for_end "$reader" || fail "a reader ended with $?"
wait_until "all to wait, again" waits "$count"
order a "flock u 0 0" ok
order a "posix u 0 1" ok
wait_until "all to get the lock" have_ended $((2 * count))
end_holder a
end_holder b
say "ok: $count waiters while the server was away"

umount_at "$M" "$client"
umount_at "$N" "$other"
stop_server
