#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A server on siw in the virtual machine, a client without any RDMA outside of it:
# the kernel's iWARP and ours, over a TCP port that is forwarded.  Runs outside.
. "$(dirname "$0")/../shell/lib.sh"

need_fuse
PATIENCE=1200
M=$T/mnt
SHARED=$T/shared
mkdir "$SHARED"

# Whatever ends us, the virtual machine sees it and ends.
end_guest() {
	: >"$SHARED/end"
	wait "$vm" || true
}
trap 'status=$?; end_guest; (exit $status); finish' EXIT

# Below the ports that the kernel gives to others by itself.
free_port() {
	local port
	for ((port = 20600; port < 20700; port++)); do
		(: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port"
}

# In the guest: serve until the file "end" is there.
cat >"$SHARED/serve" <<'END'
exec {pauses}<> <(:)
mkdir -p "$TMPDIR/store"
"$1" --store "$TMPDIR/store" --export data=data --insecure \
	--listen "verbs://$RDMA_VM_ADDRESS:20490" 2>&1 &
server=$!
until [ -e "$RDMA_VM_SHARED/end" ] || ! kill -0 $server 2>/dev/null; do
	read -r -t 0.2 -u "$pauses" || true
done
kill -TERM $server
wait $server
END

port=$(free_port)
"$ROOT/scripts/rdma-vm/run" -d siw -s "$SHARED" -f "$port:20490" -t 900 \
	bash /run/shared/serve "$RDMAFSD" >"$T/server.log" 2>&1 </dev/null &
vm=$!
wait_until "the server in the virtual machine" is_ready_or_gone \
	"$T/server.log" "$vm"
if is_gone "$vm"; then
	line=$(sed -n 's/^SKIPPED: //p' "$T/server.log")
	[ -z "$line" ] || skip "$line"
	fail "the virtual machine ended"
fi
grep -q "listening on verbs://.*siw0, rights by session" "$T/server.log" ||
	fail "not on siw: $(cat "$T/server.log")"

# siw may overlook a first message (FABRIC.md): then the mount tries another
# connection, as long as it may.
mkdir "$M"
"$RDMAFS" mount "iwarp://127.0.0.1:$port/data" "$M" -o mount_timeo=240 \
	2>"$T/mnt.log" || fail "no mount: $(cat "$T/mnt.log")"
grep -q "over iwarp" "$T/mnt.log" || fail "not over iwarp"
mkdir "$T/source"
cp -a /usr/include/linux/nf*.h "$T/source/"
head -c 3000001 /dev/urandom >"$T/big"
cp -a "$T/source" "$M/tree"
cp "$T/big" "$M/big"
diff -r "$T/source" "$M/tree"
cmp "$T/big" "$M/big"
# From the server, and not from the pages that the kernel may have kept.
dd if="$M/big" of="$T/back" bs=256k iflag=direct status=none
cmp "$T/big" "$T/back"
rm -r "$M/tree" "$M/big"
"$RDMAFS" umount "$M"
! is_mounted "$M" || fail "$M is still mounted"
: >"$SHARED/end"
wait_for_end "$vm" || fail "the virtual machine ended with status $?"
