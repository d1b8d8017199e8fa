#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random locks of six processes, over two mounts, beside a model of them: fcntl, open
# file descriptions, flock, waits, circles of them, signals, dup, close, death; then
# while server and daemons are killed.  Each run prints its seed; SEED=N repeats one.
. "$(dirname "$0")/lib.sh"

MODEL=$BUILD/tests/posix/lock_model
seconds=8
[ -z "$SMALL" ] || seconds=4
[ -z "$LONG" ] || seconds=300
bounds=(--ops 10000000 --seconds $seconds)
[ -z "${SEED:-}" ] || bounds+=(--seed "$SEED")

start_server
LISTEN=$ADDRESS
mount_two
mkdir "$T/local" "$A/one" "$A/two" "$A/three"

say "a local file system, to prove the model"
"$MODEL" --local --ops 20000 "$T/local"
say "one mount"
"$MODEL" "${bounds[@]}" "$A/one"
say "two mounts"
"$MODEL" "${bounds[@]}" "$A/two" "$B/two"

say "two mounts, while servers and daemons are killed"
"$MODEL" --ops 10000000 --seconds $((seconds * 2)) ${SEED:+--seed "$SEED"} \
	"$A/three" "$B/three" &
model=$!
PIDS+=("$model")
rounds=0
while ! is_gone "$model"; do
	sleep 0.5
	if [ $((rounds % 3)) -lt 2 ]; then
		kill_server
		start_server --listen "$LISTEN"
	else
		CLIENT_PID=$pid_b
		has_daemon && kill -KILL "$daemon"
	fi
	rounds=$((rounds + 1))
done
wait "$model" || fail "the model found a fault"
say "$rounds kills"
[ $rounds -ge 4 ] || fail "only $rounds kills"

umount_two
stop_server
