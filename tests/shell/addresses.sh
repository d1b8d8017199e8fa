#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Of a name with several addresses each is tried until the server answers.
. "$(dirname "$0")/lib.sh"

# In a network and with a table of hosts of our own.
if [ -z "${RDMAFS_TEST_NETWORK:-}" ]; then
	unshare -m -n true 2>/dev/null || skip "needs namespaces of its own"
	status=0
	RDMAFS_TEST_NETWORK=1 unshare -m -n bash "$0" || status=$?
	exit "$status"
fi
ip link set lo up
printf '%s\n' '::1 server' '127.0.0.1 server' '127.0.0.2 server' >"$T/hosts"
mount --bind "$T/hosts" /etc/hosts
[ "$(getent ahosts server | grep -c STREAM)" -eq 3 ] ||
	skip "the names of this host don't come from /etc/hosts alone"

head -c 100001 /dev/urandom >"$T/data"
for address in 127.0.0.1 127.0.0.2 '[::1]'; do
	start_server --listen "iwarp://$address:20490" --insecure
	for ADDRESS in server iwarp://server; do
		mount_at "$T/mnt"
		cp "$T/data" "$T/mnt/file"
		cmp "$T/data" "$T/mnt/file"
		umount_at "$T/mnt"
	done
	stop_server
done

# What the last one says, if none answers.
mkdir -p "$T/no"
must_fail 1 'nobody listens on server:20490' \
	timeout 60 "$RDMAFS" mount server/data "$T/no"

# Who answers, and says no, is not asked elsewhere.
start_server --listen iwarp://[::1]:20490 --listen iwarp://127.0.0.1:20490 \
	--insecure
must_fail 1 'has no export nowhere' \
	timeout 60 "$RDMAFS" mount server/nowhere "$T/no"
[ "$(grep -c 'refused with NO_EXPORT' "$T/server.log")" -eq 1 ] ||
	fail "asked more than once: $(cat "$T/server.log")"
stop_server
