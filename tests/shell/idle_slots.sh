#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A mount that lies idle loses its write slots to others that need the memory, and
# writes again as if nothing had been: it does not use what is too old.
. "$(dirname "$0")/lib.sh"

start_server --grant-ms 300 --staging 8M --session-staging 4M
mount_two
head -c 1048576 /dev/urandom >"$T/data"
head -c 16777216 /dev/urandom >"$B/big"
cp "$T/data" "$A/first"

# More at once than one client's share, until that has cost the idle one.
took_back() {
	local readers=() i
	for ((i = 0; i < 8; i++)); do
		dd if="$B/big" of=/dev/null bs=1M iflag=direct status=none &
		readers+=($!)
	done
	wait "${readers[@]}"
	kill -USR1 "$SERVER_PID"
	sed -n 's/.* \([0-9]*\) taken back.*/\1/p' "$T/server.log" |
		grep -q '[1-9]'
}
wait_until "the server to take something back" took_back

cp "$T/data" "$A/second"
cmp "$T/data" "$A/second"
cmp "$T/data" "$B/first"
cmp "$T/data" "$B/second"
! grep -q "connection lost" "$T/server.log" ||
	fail "a client has used what was taken back"
umount_two
stop_server
