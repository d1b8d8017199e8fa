#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The connection is cut before or after the n-th message of the mount or of the
# server: whatever n, each call of a fixed program succeeds, and has happened once.
# In the long form at every message; else at some of them, by chance.  And a second
# time while the session comes back from the first.
. "$(dirname "$0")/lib.sh"

RANDOM=${SEED:-$$}
say "seed ${SEED:-$$}"
SAMPLE=${SMALL:+12}
SAMPLE=${SAMPLE:-40}
# The last of them comes after RESUME: what is sent again.
AGAIN_MAX=6

start_server
mount_behind_proxy

folders=0
# run_once COMMAND: of the proxy; the program runs in a folder of its own.  The
# counts are in $said (of both sides, and cuts), what is there then in $T/list.
run_once() {
	local name=run.$folders
	folders=$((folders + 1))
	mkdir "$M/$name"
	proxy count
	[ -z "$1" ] || proxy "$1"
	"$BUILD/tests/tools/calls_once" "$M/$name" 2>"$T/calls.log" ||
		fail "with '$1': $(cat "$T/calls.log")"
	proxy_counts
	proxy count
	# close() does not wait for a server that is away: the locks go when it is back.
	wait_until "what is there after '$1'" is_as_expected "$N/$name"
	rm -r "${M:?}/$name"
}
is_as_expected() { # FOLDER; the first is what is expected
	"$BUILD/tests/tools/calls_once" -l "$1" >"$T/list"
	[ -e "$T/expected" ] || cp "$T/list" "$T/expected"
	diff "$T/expected" "$T/list" >"$T/list.log"
}

run_once ""
[ "$(wc -l <"$T/expected")" -eq 8 ] || fail "$(cat "$T/expected")"
clients=${said[0]} servers=${said[1]}
say "$clients messages of the client, $servers of the server"
[ "$clients" -gt 60 ] && [ "$servers" -gt 60 ] || fail "messages were not counted"

cuts=0
# cut_at SIDE N WHEN [M WHEN].  False: the program has not so many messages.
cut_at() {
	run_once "message $*"
	cuts=$((cuts + said[2]))
	[ "${said[2]}" -gt 0 ]
}

if [ -n "$LONG" ]; then
	for side in client server; do
		n=1
		# What goes by itself may make it more or less by some.
		while cut_at $side $n before && cut_at $side $n after; do
			cut_at $side $n before $((n % AGAIN_MAX + 1)) after
			cut_at $side $n after $((n % AGAIN_MAX + 1)) before
			n=$((n + 1))
		done
		say "$side: up to message $((n - 1))"
	done
else
	for ((i = 0; i < SAMPLE; i++)); do
		side=client most=$clients when=before again=""
		[ $((RANDOM % 2)) -eq 0 ] || side=server most=$servers
		[ $((RANDOM % 2)) -eq 0 ] || when=after
		[ $((RANDOM % 3)) -gt 0 ] ||
			again="$((RANDOM % AGAIN_MAX + 1)) before"
		# shellcheck disable=SC2086 # none, or two words
		cut_at $side $((RANDOM % most + 1)) $when $again || true
	done
fi
[ $cuts -ge $((folders / 2)) ] || fail "only $cuts cuts"
! grep -q 'is over\|is gone' "$T/mnt.log" || fail "something was lost"
umount_at "$M"
umount_at "$N" "$other"
stop_server
say "ok: $cuts cuts in $((folders - 1)) runs"
