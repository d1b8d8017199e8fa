#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The doctor on a machine as it is: what a server answers, what our programs say,
# and that problems, and only they, give exit status 1.
. "$(dirname "$0")/lib.sh"

# What other mounts of this host suffer from is told within their network
# namespace only; so have one of our own, if we may.
if [ -z "${RDMAFS_TEST_NETWORK:-}" ] &&
	unshare -n ip link set lo up 2>/dev/null; then
	status=0
	export RDMAFS_TEST_NETWORK=1
	# shellcheck disable=SC2016
	unshare -n bash -c 'ip link set lo up
		ip route add default dev lo
		exec bash "$0"' "$0" || status=$?
	exit "$status"
fi

# diagnose STATUS COMMAND...: the findings are in $T/findings.
diagnose() {
	local status=$1 got=0
	shift
	"$@" >"$T/findings" 2>"$T/stderr" || got=$?
	[ "$got" -eq "$status" ] ||
		fail "$* ended with $got, not $status: $(cat "$T/findings" "$T/stderr")"
	[ ! -s "$T/stderr" ] || fail "$* said on stderr: $(cat "$T/stderr")"
}

# found WORDS: a finding with them, and so severe.
found() {
	grep -qE -- "$1" "$T/findings" ||
		fail "no finding '$1' in: $(cat "$T/findings")"
}
not_found() {
	! grep -qE -- "$1" "$T/findings" ||
		fail "a finding '$1' in: $(cat "$T/findings")"
}

"$RDMAFS" keygen "$T/key" >/dev/null
"$RDMAFS" keygen "$T/other" >/dev/null
start_server --key-file "$T/key"
server=${ADDRESS##*/}

# Nothing is asked of it but the host: RDMA may be there or not.
"$RDMAFS" doctor -q >"$T/findings" || true
found '^problems: [0-9]+, warnings: [0-9]+, notes: [0-9]+$'
not_found '^  (ok|note) '

# The server's answers.
diagnose 0 "$RDMAFS" doctor -o key="$T/key" "iwarp://$server"
found 'ok +rdmafsd answers over iwarp, in [0-9]+ us \[answer\]'
found 'ok +a mount would use iwarp.*\[fabric\]'
found 'ok +127.0.0.1 is this host.s, on lo \[route\]'
diagnose 0 "$RDMAFS" doctor -o key="$T/key" "iwarp://$server/data"
found 'opens the export.*\[answer\]'
diagnose 0 "$RDMAFS" doctor "iwarp://$server"
found 'note +a server answers over iwarp and wants a key.*\[needs-key\]'
diagnose 1 "$RDMAFS" doctor -o key="$T/other" "iwarp://$server"
found 'PROBLEM +a server answers over iwarp and refuses.*\[refused\]'
diagnose 1 "$RDMAFS" doctor -q -o key="$T/key" "iwarp://$server/nowhere"
found 'PROBLEM .*nowhere.*\[refused\]'
not_found '^  (ok|note) '

# What is no server of ours.
if command -v python3 >/dev/null; then
	python3 -u -c '
import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1])
while True:
    c = s.accept()[0]
    c.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
    c.close()' >"$T/port" &
	PIDS+=($!)
	wait_until "a port" test -s "$T/port"
	diagnose 1 "$RDMAFS" doctor "iwarp://127.0.0.1:$(cat "$T/port")"
	found 'PROBLEM .*\[no-answer\]'
fi

# Names and fabrics that are not there.
diagnose 1 "$RDMAFS" doctor "[fe80::1%nowhere]"
found 'PROBLEM .*\[name\]'
if [ ! -d /sys/class/infiniband ]; then
	diagnose 1 "$RDMAFS" doctor "verbs://$server"
	found 'PROBLEM .*\[no-device\]'
	diagnose 0 "$RDMAFS" doctor
	found 'note .*\[no-device\]'
fi

diagnose 1 "$RDMAFS" doctor -o source=192.0.2.99 "iwarp://$server"
found 'PROBLEM +192.0.2.99, from where to connect, .*\[source-not-ours\]'
diagnose 0 "$RDMAFS" doctor -o source=127.0.0.2,key="$T/key" "iwarp://$server"
found 'ok +rdmafsd answers over iwarp'

# Of addresses that each network has, the one that is meant.
if [ -n "${RDMAFS_TEST_NETWORK:-}" ] &&
	ip link add v0 type veth peer name w0 2>/dev/null; then
	ip link add v1 type veth peer name w1
	for own in 0 1; do
		ip link set "v$own" up
		ip link set "w$own" up
		ip addr add "fe80::a$own/64" dev "v$own" nodad
		ip addr add "fe80::b$own/64" dev "w$own" nodad
	done
	for netdev in v1 v0 w1 w0; do
		diagnose 1 "$RDMAFS" doctor -o mount_timeo=1 \
			"iwarp://[fe80::99%$netdev]"
		found "ok +leaves by $netdev from fe80:.*\[route\]"
	done
	ip link del v0
	ip link del v1
fi

# The server's own doctor needs no store.
diagnose 0 "$RDMAFSD" --doctor --key-file "$T/key" --listen "iwarp://$server"
found 'ok +rdmafsd answers over iwarp'
diagnose 1 "$RDMAFSD" --doctor --listen iwarp://192.0.2.1:7
found 'PROBLEM +192.0.2.1 is no address of this host \[not-ours\]'

# What the programs say of themselves.
mount_at "$T/mnt" "key=$T/key"
head -c 200000 /dev/urandom >"$T/mnt/file"
diagnose 0 "$RDMAFS" doctor -o key="$T/key" "iwarp://$server"
found "^rdmafs, process $(daemon_of "$CLIENT_PID")\$"
found "^rdmafsd, process $SERVER_PID\$"
found 'fabric: name=iwarp level=window registrations=1 '
found 'ok +[1-9][0-9]* TCP connections, '
umount_at "$T/mnt"

# Only root and its own user are told.
if [ "$(id -u)" -eq 0 ]; then
	chmod 755 "$T"
	setpriv --reuid 65534 --regid 65534 --clear-groups \
		"$RDMAFS" doctor >"$T/findings" || true
	sed -n "/^rdmafsd, process $SERVER_PID\$/,/^[^ ]/p" "$T/findings" \
		>"$T/part"
	grep -q 'tells its figures to root' "$T/part" ||
		fail "a stranger was told: $(cat "$T/part")"
fi

# A mount whose server is away.
mount_at "$T/mnt" "key=$T/key"
client=$CLIENT_PID
kill_server
wait_until "the mount to notice" grep -q 'lost the server' "$T/mnt.log"
diagnose 1 "$RDMAFS" doctor -q
found 'PROBLEM +the server of .*/mnt is away.*\[server-away\]'
"$RDMAFS" umount -f "$T/mnt"
wait_for_end "$client" || true

# Nobody listens.
diagnose 1 "$RDMAFS" doctor "iwarp://$server"
found 'PROBLEM +nobody listens there over iwarp \[not-listening\]'
diagnose 0 "$RDMAFSD" --doctor --listen "iwarp://$server"
found 'note .*\[not-listening\]'

# Wrong words.
must_fail 2 'seconds' "$RDMAFS" doctor -w soon
must_fail 2 'nonsense' "$RDMAFS" doctor -o nonsense
must_fail 2 'one server' "$RDMAFS" doctor a b
must_fail 2 'port' "$RDMAFS" doctor a:0
