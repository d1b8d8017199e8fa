#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rdmafs mount returns when the mount answers, says no more than over what it
# got, holds no terminal, and its daemon ends when the mount goes or a signal asks
# it to.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root to mount without fusermount3"

start_server
M=$T/mnt
mkdir "$M"


# If it kept stdout or stderr, this would wait for ever.
exec 9>"$T/lock"
flock 9
said=$(timeout 60 "$RDMAFS" mount "$ADDRESS/data" "$M" 2>&1 | cat)
exec 9>&-
flock -n "$T/lock" true || fail "a lock of who mounted is still held"
equal "$said" "info connected to ${ADDRESS#*//} over iwarp" \
	"what a mount that works says"
stat -f "$M" >/dev/null
supervisor=$(supervisors_of "$M")
equal "$(wc -w <<<"$supervisor")" 1 "supervisors"
for pid in "$supervisor" "$(daemon_of "$supervisor")"; do
	equal "$(readlink "/proc/$pid/cwd")" / "working directory"
	equal "$(readlink "/proc/$pid/fd/0")" /dev/null "stdin"
	equal "$(readlink "/proc/$pid/fd/2")" /dev/null "stderr"
	equal "$(cut -d' ' -f6 "/proc/$pid/stat")" "$pid" "session"
done
bdi=/sys/class/bdi/$(mountpoint -d "$M")/read_ahead_kb
equal "$(cat "$bdi")" 2048 "read-ahead"
must_fail 1 'mounted there already' "$RDMAFS" mount "$ADDRESS/data" "$M"
printf text >"$M/file"
"$RDMAFS" umount "$M"
wait_until "the end of the daemon" has_ended "$pid"
wait_until "the end of the supervisor" has_ended "$supervisor"

# A signal unmounts, in order: to the supervisor, or to the daemon.
for signal in TERM INT; do
	"$RDMAFS" mount "$ADDRESS/data" "$M" -o read_ahead=512
	pid=$(supervisors_of "$M")
	[ $signal = TERM ] || pid=$(daemon_of "$pid")
	equal "$(cat "$bdi")" 512 "read-ahead"
	equal "$(cat "$M/file")" text "bytes"
	kill -$signal "$pid"
	wait_until "the end of the daemon" has_ended "$pid"
	! is_mounted "$M" || fail "still mounted after SIG$signal"
done

# Whatever it was told to ignore by who started it.
env --ignore-signal=CHLD "$RDMAFS" mount "$ADDRESS/data" "$M"
pid=$(supervisors_of "$M")
killed=$(daemon_of "$pid")
is_followed() {
	local next
	next=$(daemon_of "$pid")
	[ -n "$next" ] && [ "$next" != "$killed" ]
}
kill -KILL "$killed"
wait_until "another daemon" is_followed
equal "$(timeout 60 cat "$M/file")" text "bytes after a death"
"$RDMAFS" umount "$M"
wait_until "the end of the supervisor" has_ended "$pid"

# In use: refused, then taken away lazily; the daemon stays until it is free.
"$RDMAFS" mount "$ADDRESS/data" "$M"
pid=$(supervisors_of "$M")
exec 3<"$M/file"
must_fail 1 'in use' "$RDMAFS" umount "$M"
"$RDMAFS" umount -l "$M"
! is_mounted "$M" || fail "still mounted after umount -l"
equal "$(cat <&3)" text "bytes of a file that was open"
exec 3<&-
wait_until "the end of the daemon" has_ended "$pid"
must_fail 1 'no rdmafs is mounted' "$RDMAFS" umount "$M"

# A symbolic link stands for what it leads to.
mkdir "$T/links"
ln -s ../mnt "$T/links/one"
ln -s "$T/links/one" "$T/two"
"$RDMAFS" mount "$ADDRESS/data" "$T/two"
is_mounted "$M" || fail "not mounted by a link"
equal "$(cat "$bdi")" 2048 "read-ahead"
must_fail 1 'mounted there already' \
	"$RDMAFS" mount "$ADDRESS/data" "$T/links/one"
"$RDMAFS" upgrade "$T/links/one/"
"$RDMAFS" umount "$T/links/one" || fail "not unmounted by a link"
! is_mounted "$M" || fail "still mounted after umount of a link"
ln -s loop "$T/loop"
must_fail 1 'symbolic links' "$RDMAFS" mount "$ADDRESS/data" "$T/loop"
stop_server
