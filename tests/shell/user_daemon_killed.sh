#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A plain user's mount, made by fusermount3: its daemon is killed, and it goes on.
. "$(dirname "$0")/lib.sh"
need_user
command -v fusermount3 >/dev/null || skip "fusermount3 is not installed"

as_user() {
	${AS_USER[@]+"${AS_USER[@]}"} "$@"
}
M=$T/mnt
as_user mkdir "$M"
serve_and_mount
as_user touch "$M/appended"
# Open all along, of a process of that user.
mkfifo "$T/words"
chmod 666 "$T/words"
as_user sh -c 'while read -r word; do echo "$word"; done <"$1" >>"$2"' sh \
	"$T/words" "$M/appended" &
writer=$!
PIDS+=("$writer")
exec {words}>"$T/words"
sum=
for round in 1 2 3 4 5; do
	printf 'word.%d\n' $round >&"$words"
	sum="${sum}word.$round "
	wait_until "the daemon" has_daemon
	killed=$daemon
	kill -KILL "$killed"
	wait_until "another daemon" is_another "$killed"
	has_word() {
		[ "$(as_user cat "$M/appended" | tr '\n' ' ')" = "$sum" ]
	}
	wait_until "what was written in round $round, once" has_word
	equal "$(stat -c %u "/proc/$daemon")" "$(stat -c %u "/proc/$CLIENT_PID")" \
		"who the daemon is"
done
exec {words}>&-
wait "$writer" || fail "the writer ended with status $?"
umount_at "$M"
stop_server
