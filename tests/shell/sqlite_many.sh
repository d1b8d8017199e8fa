#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Four programs work on one sqlite data base, on one mount and on two, and are killed
# in between: what was committed is there, and the data base is whole.
. "$(dirname "$0")/lib.sh"

command -v sqlite3 >/dev/null || skip "sqlite3 is not installed"
rows=${LONG:+400}
rows=${rows:-${SMALL:+20}}
rows=${rows:-40}
A=$T/a
B=$T/b

# What worker NUMBER still has to do, from what it knows to be committed.
commands() { # NUMBER JOURNAL
	local n
	printf '.bail on\n.timeout 60000\npragma journal_mode=%s;\n' "$2"
	n=$(grep -c '^done' "$T/log.$1" || true)
	for ((; n < rows; n++)); do
		printf 'insert or ignore into t values(%d, %d, hex(zeroblob(%d)));\n' \
			"$1" "$n" $((n * 37 % 3000))
		[ $((n % 10)) -ne 5 ] || printf 'update t set data = data || "x" where worker = %d;\n' "$1"
		printf 'select "done %d";\n' "$n"
	done
}

# worker NUMBER DB JOURNAL: until all its rows are in.
worker() {
	local try
	for ((try = 0; try < 50; try++)); do
		commands "$1" "$3" | sqlite3 "$2" >>"$T/log.$1" 2>>"$T/err.$1" \
			&& return
	done
	return 1
}

# Kill whoever works on the data base now, some times.
kill_some() { # NAME
	local round pid
	for ((round = 0; round < 6; round++)); do
		sleep "0.$((RANDOM % 4 + 1))"
		pid=$(pgrep -f "^sqlite3 $T/.*/$1" | shuf -n 1) || return 0
		kill -KILL "$pid" 2>/dev/null || true
	done
}

many() { # LABEL JOURNAL DIR DIR
	local name=$2.${1// /_}.db number pids=()
	rm -f "$T"/log.* "$T"/err.*
	sqlite3 "$3/$name" "pragma journal_mode=$2;
		create table t(worker, n, data, primary key(worker, n));" >/dev/null
	for number in 0 1 2 3; do
		: >"$T/log.$number"
		if [ $((number % 2)) -eq 0 ]; then
			worker $number "$3/$name" "$2" 2>/dev/null &
		else
			worker $number "$4/$name" "$2" 2>/dev/null &
		fi
		pids+=($!)
	done
	kill_some "$name"
	for number in 0 1 2 3; do
		wait "${pids[number]}" || {
			cat "$T/err.$number"
			fail "$1, $2: worker $number did not get through"
		}
	done
	equal "$(sqlite3 "$4/$name" 'pragma integrity_check')" ok "$1, $2"
	equal "$(sqlite3 "$3/$name" 'select count(*) from t')" $((4 * rows)) \
		"$1, $2: rows"
	sqlite3 "$3/$name" vacuum
	equal "$(sqlite3 "$4/$name" 'pragma integrity_check')" ok \
		"$1, $2, after vacuum"
	! grep -h . "$T"/err.* | grep -v -e locked -e busy ||
		fail "$1, $2: sqlite complains"
	say "ok: $1, $2"
}

command -v pgrep >/dev/null || skip "pgrep is not installed"
start_server
mount_at "$A"
pid_a=$CLIENT_PID
many "one mount" delete "$A" "$A"
many "one mount" wal "$A" "$A"
mount_at "$B"
pid_b=$CLIENT_PID
many "two mounts" delete "$A" "$B"
many "two mounts" persist "$A" "$B"
umount_two
stop_server
