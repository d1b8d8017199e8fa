#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 64 MiB copied in and out of a real mount, watched by tshark: bulk bytes travel
# only in RDMA Write and Read Response, no Send is longer than small data and a
# header, every frame is well-formed, and nothing is registered meanwhile.
. "$(dirname "$0")/lib.sh"
command -v tshark >/dev/null || skip "tshark is not installed"
[ "$(id -u)" -eq 0 ] || skip "capturing needs root"

# inline_max + RF_MSG_OVERHEAD, and the headers of DDP and RDMAP.
longest_send=$((4096 + 1024 + 18))
mib=64
serve_and_mount
port=${ADDRESS##*:}
head -c "${mib}M" /dev/urandom >"$T/data"

# The figure of regions that a process logs when it is asked by SIGUSR1.
registrations() { # PID LOG
	ask_figures "$1" "$2" registrations
	sed -n 's/.*registrations[ =:]*\([0-9]*\).*/\1/p' <<<"$figures" |
		head -n 1
}

# The first transfer may still set something up.
cp "$T/data" "$M/warm"
cmp "$T/data" "$M/warm"
rm "$M/warm"
server_before=$(registrations "$SERVER_PID" "$T/server.log")
client_before=$(registrations "$CLIENT_PID" "$T/mnt.log")
umount_at "$M"

# From the connection's start, or the dissector has nothing to hold on to.
tshark -i lo -B 256 -f "tcp port $port" -w "$T/capture" -q \
	2>"$T/tshark.log" &
tshark=$!
PIDS+=("$tshark")
is_capturing() {
	grep -q 'Capturing on' "$T/tshark.log" && [ -s "$T/capture" ]
}
wait_until "tshark" is_capturing
mount_at "$M"
cp "$T/data" "$M/file"
sync -f "$M/file"
dd if="$M/file" iflag=nocache count=0 status=none
cmp "$T/data" "$M/file"
client_after=$(registrations "$CLIENT_PID" "$T/mnt.log")
server_after=$(registrations "$SERVER_PID" "$T/server.log")
umount_at "$M"
sleep 1
kill -INT "$tshark"
wait "$tshark" || true
if grep -q 'packets dropped' "$T/tshark.log"; then
	skip "this machine is too slow to capture everything"
fi
equal "$client_after" "$client_before" "registrations of the client"
equal "$server_after" "$server_before" "registrations of the server"

# Two processors may have captured neighbours in the other order.
dissect() {
	tshark -r "$T/capture" -o tcp.desegment_tcp_streams:TRUE \
		-o tcp.reassemble_out_of_order:TRUE "$@" 2>/dev/null
}

# One line a frame: the columns hold a value for each FPDU in it.
dissect -T fields -e tcp.srcport -e iwarp_rdma.opcode -e iwarp_ddp.last_flag \
	-e iwarp_mpa.ulpdulength -Y iwarp_mpa >"$T/frames"
malformed=$(dissect -Y '_ws.malformed' | wc -l)
equal "$malformed" 0 "malformed frames"

awk -F '\t' '
	{
		n = split($2, op, ",")
		split($3, last, ",")
		if (split($4, size, ",") != n) {
			print "frame " NR ": " $0 > "/dev/stderr"
			exit 1
		}
		for (i = 1; i <= n; i++) {
			o = op[i]
			sub(/^0x/, "", o)
			o += 0
			bytes[o] += size[i]
			if (o < 3 || o > 6)
				continue
			send[$1] += size[i]
			if (last[i] != "1" && last[i] != "True")
				continue
			if (send[$1] > longest)
				longest = send[$1]
			send[$1] = 0
			sends++
		}
	}
	END {
		printf "writes=%d\nresponses=%d\nterminates=%d\n", bytes[0],
			bytes[2], bytes[7]
		printf "in_sends=%d\nlongest=%d\nsends=%d\n",
			bytes[3] + bytes[4] + bytes[5] + bytes[6], longest,
			sends
	}' "$T/frames" >"$T/figures"
cat "$T/figures"
# shellcheck source=/dev/null
. "$T/figures"
# shellcheck disable=SC2154
{
	[ "$writes" -ge $((mib << 20)) ] || fail "not all was written by Write"
	[ "$responses" -ge $((mib << 20)) ] || fail "not all was read by Read"
	equal "$terminates" 0 "Terminates"
	[ "$longest" -le "$longest_send" ] ||
		fail "a Send of $longest bytes is longer than $longest_send"
	[ "$in_sends" -lt $((2 << 20)) ] || fail "$in_sends bytes in Sends"
}
stop_server
