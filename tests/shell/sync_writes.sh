#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What was written through O_SYNC and O_DSYNC descriptors, and by RWF_SYNC and
# RWF_DSYNC, survives the power loss of the server's machine once write() has
# returned: also past the page cache, where the kernel does not ask for a sync of its
# own, and through descriptors that were opened before the loss.
. "$(dirname "$0")/lib.sh"

need_preload power_loss

DISK=$T/disk
mkdir "$DISK"
new_boot() {
	cat /proc/sys/kernel/random/uuid >"$DISK/boot"
}
new_boot
power_on() {
	AS_USER=(env "LD_PRELOAD=$PRELOAD" "POWER_LOSS=$DISK")
	start_server "$@"
	AS_USER=()
}
# The machine goes down at once, and comes up with what was synced.
lose_power() {
	local inode file
	kill_server
	while read -r inode file; do
		if [ -e "$DISK/$inode" ]; then
			cat "$DISK/$inode" >"$file"
		else
			: >"$file"
		fi
	done < <(find "$T/store" -type f -printf '%i %p\n')
	new_boot
	power_on --listen "$LISTEN"
}

power_on
LISTEN=$ADDRESS
M=$T/mnt
mount_at "$M"

# ---- who writes -----------------------------------------------------------------

# start_writer NAME WAY SIZE, write_turn NAME: the next bytes of $M/NAME, and the
# same of $T/NAME, which needs no sync.  end_writer NAME.
declare -A WRITER_FD WRITER_PID WRITER_TURNS
start_writer() {
	local fd
	mkfifo "$T/$1.turn"
	"$BUILD/tests/tools/sync_write" "$M/$1" "$2" "$3" <"$T/$1.turn" \
		>"$T/$1.said" 2>"$T/$1.log" &
	WRITER_PID[$1]=$!
	PIDS+=($!)
	exec {fd}>"$T/$1.turn"
	WRITER_FD[$1]=$fd
	WRITER_TURNS[$1]=0
}
has_written() {
	! is_gone "${WRITER_PID[$1]}" || fail "$1: $(cat "$T/$1.log")"
	[ "$(wc -l <"$T/$1.said")" -eq "${WRITER_TURNS[$1]}" ]
}
write_turn() { # NAME SIZE
	WRITER_TURNS[$1]=$((WRITER_TURNS[$1] + 1))
	printf 'go\n' >&"${WRITER_FD[$1]}"
	wait_until "the write of $1" has_written "$1"
	seq "${WRITER_TURNS[$1]}" |
		"$BUILD/tests/tools/sync_write" "$T/$1" none "$2" >/dev/null
}
end_writer() {
	local fd=${WRITER_FD[$1]}
	# Others have inherited this end.
	printf 'end\n' >&"$fd"
	exec {fd}>&-
	wait_for_end "${WRITER_PID[$1]}" || fail "$1: $(cat "$T/$1.log")"
	rm "$T/$1" "$T/$1".*
}

# ---- what nobody asked to be durable is lost, or this shows nothing ----------------

for way in none direct_none; do
	start_writer large $way 1048576
	write_turn large 1048576
	cmp "$T/large" "$M/large"
	lose_power
	! cmp -s "$T/large" "$M/large" || fail "$way: nothing was lost"
	end_writer large
done
say "ok: without, it is lost"

# ---- what was, is not ---------------------------------------------------------------

# The smallest goes inside of its message and lies beside its inode, the largest in
# four blocks.  It is the last that is written: another's sync would take it along.
losses=0
for way in sync dsync rwf_sync rwf_dsync direct_sync direct_dsync \
	direct_rwf_sync direct_rwf_dsync; do
	case $way in
	direct_*) sizes="1048576 311296 512" ;;
	*) sizes="1048576 300001 77" ;;
	esac
	for size in $sizes; do
		start_writer $way.$size $way $size
	done
	for turn in 1 2; do
		for size in $sizes; do
			write_turn $way.$size $size
		done
		lose_power
		losses=$((losses + 1))
		for size in $sizes; do
			cmp "$T/$way.$size" "$M/$way.$size" ||
				fail "$way of $size bytes was lost, in turn $turn"
		done
	done
	for size in $sizes; do
		end_writer $way.$size
	done
	# Alone, for those before were written together.
	start_writer $way.alone $way 4096
	write_turn $way.alone 4096
	lose_power
	losses=$((losses + 1))
	cmp "$T/$way.alone" "$M/$way.alone" || fail "$way alone was lost"
	end_writer $way.alone
done
say "ok: eight ways, $losses losses of power"

head -c 1M /dev/urandom >"$T/data"
for flag in sync dsync; do
	dd if="$T/data" of="$M/dd.$flag" bs=64K oflag=$flag status=none
	lose_power
	cmp "$T/data" "$M/dd.$flag" || fail "dd oflag=$flag"
done
umount_at "$M"
stop_server
