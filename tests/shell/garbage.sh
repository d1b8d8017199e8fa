#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Garbage, slow bytes and a thousand silent clients on the port: a mount beside
# them works on, new mounts come in when the time for HELLO is over, and the
# server's memory stays within bounds.
. "$(dirname "$0")/lib.sh"

serve_and_mount --hello-ms 2000
port=${ADDRESS##*:}
cp -r /usr/include/linux "$M/tree"

resident() {
	sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$SERVER_PID/status"
}
before=$(resident)

# Random bytes, of many sizes; the server closes, and says nothing of worth.
for size in 1 19 20 21 100 1000 5000 100000; do
	for try in 1 2 3 4 5; do
		{
			exec 3<>"/dev/tcp/127.0.0.1/$port"
			head -c $size /dev/urandom >&3 || true
			exec 3>&-
		} 2>/dev/null
	done
done

# A right beginning of MPA, then garbage; and one byte at a time.
for try in 1 2 3 4 5 6 7 8; do
	{
		exec 3<>"/dev/tcp/127.0.0.1/$port"
		printf 'MPA ID Req Frame\x40\x02\x00\x10' >&3
		head -c 4000 /dev/urandom >&3 || true
		exec 3>&-
	} 2>/dev/null
done
exec 3<>"/dev/tcp/127.0.0.1/$port"
for byte in M P A ' ' I D; do
	printf '%s' "$byte" >&3
	sleep 0.1
done
diff -r /usr/include/linux "$M/tree"

# A thousand that connect and say nothing.
silent=()
ulimit -n 4096 2>/dev/null || true
count=$(($(ulimit -n) - 50))
[ "$count" -le 1000 ] || count=1000
for ((i = 0; i < count; i++)); do
	{ exec {fd}<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || break
	silent+=("$fd")
done
[ ${#silent[@]} -ge $((count / 2)) ] ||
	fail "only ${#silent[@]} connections could be made"
say "${#silent[@]} silent connections"
started=$SECONDS
diff -r /usr/include/linux "$M/tree"
cp -r "$M/tree" "$M/copy"
diff -r "$M/tree" "$M/copy"
say "the mount took $((SECONDS - started)) s beside them"

# They are thrown out after a while; then others can come in.
mount_at "$T/second" mount_timeo=30
second=$CLIENT_PID
equal "$(ls "$T/second")" "$(ls "$M")" "names on the second mount"
for fd in "${silent[@]}"; do
	exec {fd}>&-
done
exec 3>&-
after=$(resident)
say "resident: $before KiB before, $after KiB after"
[ "$after" -lt $((before + 65536)) ] || fail "the server grew too much"
umount_at "$T/second" "$second"
umount_at "$M" "${PIDS[1]}"
stop_server
