#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# iwarp_tshark.sh - the standard as judge: Wireshark's MPA, DDP and RDMAP
# dissectors find every frame of a session well-formed, every checksum right,
# and exactly the segments that were sent.

. "$(dirname "$0")/lib.sh"

SESSION=$BUILD/tests/tools/iwarp_session
CAPTURE_PID=

command -v tshark >/dev/null || skip "there is no tshark (package tshark)"
[ -x "$SESSION" ] || fail "$SESSION is not built: make tools"
tshark -D 2>/dev/null | grep -qw lo ||
	skip "this user may not capture on lo (root, or group wireshark)"

# Payloads are ours: nobody may take them for SMB Direct or RPC.
dissect() {
	tshark -2 -r "$T/session.pcap" --disable-protocol smb_direct \
		--disable-protocol rpcordma "$@" 2>/dev/null
}

is_capturing_or_gone() {
	[ -s "$T/session.pcap" ] || is_gone "$CAPTURE_PID"
}

start_capture() {
	rm -f "$T/session.pcap"
	tshark -i lo -B 64 -f "tcp port $1" -w "$T/session.pcap" \
		2>"$T/capture.log" &
	CAPTURE_PID=$!
	PIDS+=("$CAPTURE_PID")
	wait_until "the capture" is_capturing_or_gone
	[ -s "$T/session.pcap" ] ||
		skip "can't capture: $(tail -n 1 "$T/capture.log")"
}

# A session is two connections, and the Terminate ends the second.
has_the_end() {
	[ "$(dissect -Y 'iwarp_rdma.opcode == 7' | wc -l)" -eq 1 ] &&
		[ "$(dissect -Y 'tcp.flags.fin == 1' | wc -l)" -eq 4 ]
}

stop_capture() {
	wait_until "the end of the session in the capture" has_the_end
	kill -INT "$CAPTURE_PID"
	wait_until "the end of the capture" is_gone "$CAPTURE_PID"
	wait "$CAPTURE_PID" || fail "tshark: $(tail -n 1 "$T/capture.log")"
	! grep -q 'dropped' "$T/capture.log" ||
		fail "packets were lost: $(grep dropped "$T/capture.log")"
}

# How often a field has a value, over all FPDUs of all packets.
count_of() {
	dissect -Y iwarp_mpa -T fields -e "$1" | tr ',' '\n' | grep -cxi "$2" ||
		true
}

# Count what the dissectors saw as the session counts what it said.
seen() {
	printf 'requests=%d replies=%d sends=%d sends_inv=%d sends_se=%d ' \
		"$(dissect -Y iwarp_mpa.req | wc -l)" \
		"$(dissect -Y iwarp_mpa.rep | wc -l)" \
		"$(count_of iwarp_rdma.opcode 0x03)" \
		"$(count_of iwarp_rdma.opcode 0x04)" \
		"$(count_of iwarp_rdma.opcode 0x05)"
	printf 'writes=%d reads=%d responses=%d terminates=%d' \
		"$(count_of iwarp_rdma.opcode 0x00)" \
		"$(count_of iwarp_rdma.opcode 0x01)" \
		"$(count_of iwarp_rdma.opcode 0x02)" \
		"$(count_of iwarp_rdma.opcode 0x07)"
}

# judge URI CHECKSUMS: yes or no
judge() {
	local port=$((20000 + RANDOM % 10000)) said all good
	start_capture "$port"
	said=$("$SESSION" --port "$port" --fabric "$1") || fail "the session"
	stop_capture
	equal "$(seen)" "$said" "$1: segments seen and sent"
	equal "$(dissect -Y '_ws.malformed' | wc -l)" 0 "$1: malformed frames"
	# What TCP says twice belongs to frames that were seen already.
	equal "$(dissect -Y 'tcp.len > 0 and not iwarp_mpa and
		not tcp.reassembled_in and not tcp.analysis.retransmission and
		not tcp.analysis.keep_alive and
		not tcp.analysis.zero_window_probe' | wc -l)" 0 \
		"$1: bytes outside frames"
	dissect -V -Y iwarp_mpa >"$T/verbose"
	equal "$(grep -c 'Bad CRC' "$T/verbose")" 0 "$1: wrong checksums"
	all=$(grep -c 'RDMAP header' "$T/verbose")
	good=$(grep -c 'Good CRC' "$T/verbose" || true)
	[ "$2" = no ] || equal "$good" "$all" "$1: right checksums"
	# What the Terminate says: layer RDMA, protection error, no such key.
	equal "$(dissect -Y 'iwarp_rdma.term_errcode_rdma' -T fields \
		-e iwarp_rdma.term_layer -e iwarp_rdma.term_etype_rdma \
		-e iwarp_rdma.term_errcode_rdma)" \
		$'0x00\t0x01\t0x00' "$1: the Terminate"
	say "ok: $1: $said"
}

judge "iwarp://" yes
judge "iwarp://?crc=0" no
