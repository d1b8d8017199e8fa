#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random reads, writes, appends, truncates, holes, copies and mappings of two
# files, on one mount and alternating between two, beside a model of them.  Each
# run prints its seed; SEED=N repeats one.
. "$(dirname "$0")/lib.sh"

MODEL=$BUILD/tests/posix/data_model

start_server
mount_two
mkdir "$T/local" "$A/dir"

say "a local file system, to prove the model"
"$MODEL" --ops 6000 "$T/local"
say "one mount"
run_model "$MODEL" "$A/dir"
say "two mounts in turn"
run_model "$MODEL" "$A/dir" "$B/dir"

# A fault is found, made small, and is there again in what is printed.
if "$MODEL" --spoil --seed 1 "$A/dir" >"$T/found"; then
	fail "punches that do nothing were not found"
fi
sed '1,/operations are left/d' "$T/found" >"$T/script"
[ "$(wc -l <"$T/script")" -le 20 ] || fail "the list was not made small"
if "$MODEL" --spoil --replay "$T/script" "$B/dir"; then
	fail "the printed list does not fail"
fi
"$MODEL" --replay "$T/script" "$B/dir"

umount_two
stop_server
