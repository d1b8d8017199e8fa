#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A server that is killed and started again is a pause: what runs on the mount
# goes on and fails nowhere, each acknowledged byte is there, once; open files
# go on, also those that were deleted.
. "$(dirname "$0")/lib.sh"

ROUNDS=${LONG:+20}
ROUNDS=${ROUNDS:-4}
OPEN_FILES=100

serve_and_mount
client=$CLIENT_PID
# From now on on the same port, where the mount looks for it.
LISTEN=$ADDRESS

# The server is not to inherit what this script has open on the mount.
# shellcheck disable=SC2016
WITHOUT_FILES=(bash -c 'for fd in /proc/$$/fd/*; do
	fd=${fd##*/}
	[ "$fd" -le 2 ] || exec {fd}>&-
done
exec "$@"' without_files)
restart_server() {
	kill_server
	AS_USER=("${WITHOUT_FILES[@]}")
	start_server --listen "$LISTEN" "$@"
	AS_USER=()
}

# ---- open files --------------------------------------------------------------

mkdir "$M/open"
for ((i = 0; i < OPEN_FILES; i++)); do
	printf 'first %d\n' $i >"$M/open/$i"
	exec {fds[i]}<>"$M/open/$i"
	# Each third has no name any more.
	[ $((i % 3)) -ne 0 ] || rm "$M/open/$i"
done
exec {dir}<"$M/open"

# ---- load ---------------------------------------------------------------------

# Whole lines, each once, in order, whatever happens meanwhile.
append() {
	local i=0
	exec 4>>"$M/lines"
	while [ ! -e "$T/enough" ]; do
		printf 'line %d\n' $i >&4
		i=$((i + 1))
	done
	printf '%d\n' $i >"$T/lines.count"
}
# The same with an open of its own for each line.
append_reopening() {
	local i=0
	while [ ! -e "$T/enough" ]; do
		printf 'line %d\n' $i >>"$M/reopened"
		i=$((i + 1))
	done
	printf '%d\n' $i >"$T/reopened.count"
}
# Names: each made, renamed and removed once, or one of them fails.
names() {
	local i=0
	while [ ! -e "$T/enough" ]; do
		mkdir "$M/dir.$i"
		printf '%d' $i >"$M/dir.$i/file"
		mv "$M/dir.$i/file" "$M/dir.$i/moved"
		ln "$M/dir.$i/moved" "$M/dir.$i/linked"
		rm "$M/dir.$i/moved" "$M/dir.$i/linked"
		rmdir "$M/dir.$i"
		i=$((i + 1))
	done
}
# Large writes and reads, past the page cache and through it.
copy() {
	local i=0
	while [ ! -e "$T/enough" ]; do
		dd if="$T/data" of="$M/copy.direct" bs=1M oflag=direct \
			status=none
		cp "$T/data" "$M/copy"
		cmp "$T/data" "$M/copy.direct"
		cmp "$T/data" "$M/copy"
		i=$((i + 1))
	done
	[ $i -gt 0 ]
}
data_base() {
	local i=0
	sqlite3 "$M/base" 'create table t (i integer primary key, s text);'
	while [ ! -e "$T/enough" ]; do
		sqlite3 "$M/base" "insert into t values ($i, 'row $i');"
		i=$((i + 1))
	done
	printf '%d\n' $i >"$T/rows.count"
}

start_job() { # NAME COMMAND...
	local name=$1
	shift
	(
		set -e
		"$@"
	) >"$T/$name.out" 2>&1 &
	PIDS+=($!)
	JOBS+=("$name $!")
}

head -c 24M /dev/urandom >"$T/data"
JOBS=()
start_job lines append
start_job reopened append_reopening
start_job names names
start_job copy copy
! command -v sqlite3 >/dev/null || start_job base data_base

lines_now() {
	wc -c <"$T/store/format" >/dev/null
	stat -c %s "$M/lines" "$M/reopened" 2>/dev/null | paste -s -d' '
}
has_moved() { # from SIZES
	local now
	now=$(lines_now)
	[ -n "$1" ] && [ "${now% *}" -gt "${1% *}" ] &&
		[ "${now#* }" -gt "${1#* }" ]
}
is_running() {
	[ -s "$M/lines" ] && [ -s "$M/reopened" ]
}
wait_until "the load" is_running
for ((round = 0; round < ROUNDS; round++)); do
	before=$(lines_now)
	wait_until "work in round $round" has_moved "$before"
	restart_server
done
before=$(lines_now)
wait_until "work after the last restart" has_moved "$before"
: >"$T/enough"
for job in "${JOBS[@]}"; do
	wait_for_end "${job#* }" ||
		fail "${job% *} failed: $(tail -n 3 "$T/${job% *}.out")"
done

# ---- what is there ------------------------------------------------------------

check_lines() { # FILE COUNT
	seq -f 'line %.0f' 0 $(($2 - 1)) | cmp - "$1" ||
		fail "${1##*/} is not the $2 lines that were written"
}
check_lines "$M/lines" "$(cat "$T/lines.count")"
check_lines "$M/reopened" "$(cat "$T/reopened.count")"
! compgen -G "$M/dir.*" >/dev/null || fail "names are left"
if [ -e "$T/rows.count" ]; then
	equal "$(sqlite3 "$M/base" 'pragma integrity_check;')" ok "the data base"
	equal "$(sqlite3 "$M/base" 'select count(*) from t;')" \
		"$(cat "$T/rows.count")" "rows"
fi

for ((i = 0; i < OPEN_FILES; i++)); do
	fd=${fds[i]}
	equal "$(cat <&"$fd")" "first $i" "open file $i"
	printf 'second %d\n' $i >&"$fd"
	if [ $((i % 3)) -eq 0 ]; then
		[ ! -e "$M/open/$i" ] || fail "deleted file $i is back"
		equal "$(cat "/proc/self/fd/$fd")" \
			"$(printf 'first %d\nsecond %d' $i $i)" "deleted file $i"
	else
		equal "$(cat "$M/open/$i")" \
			"$(printf 'first %d\nsecond %d' $i $i)" "open file $i"
	fi
	exec {fd}>&-
done
equal "$(ls "/proc/self/fd/$dir" | wc -l)" \
	$((OPEN_FILES - (OPEN_FILES + 2) / 3)) "names in an open directory"
exec {dir}<&-

equal "$(grep -c 'lost the server' "$T/mnt.log")" "$ROUNDS" "losses told"
equal "$(grep -c 'back at' "$T/mnt.log")" "$ROUNDS" "returns told"
! grep -q 'is over\|is gone' "$T/mnt.log" || fail "something was lost"
umount_at "$M" "$client"
stop_server
say "ok: $ROUNDS restarts, $(cat "$T/lines.count") and $(cat "$T/reopened.count") lines"
