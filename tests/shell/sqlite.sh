#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A SQLite database on the mount: insert, update, vacuum, integrity_check, in
# its journal modes that need no shared memory.
. "$(dirname "$0")/lib.sh"
command -v sqlite3 >/dev/null || skip "sqlite3 is not installed"

serve_and_mount

work='create table t(id integer primary key, name text, data blob);
begin;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
  insert into t select i, printf("name %06d", i), zeroblob(i % 500) from n;
commit;
create index by_name on t(name);
update t set name = name || "+" where id % 3 = 0;
delete from t where id % 7 = 0;
vacuum;
pragma integrity_check;
select count(*), sum(id), sum(length(data)) from t;'

for mode in delete truncate persist; do
	for place in "$T" "$M"; do
		{
			printf 'pragma journal_mode=%s;\n' $mode
			printf '%s\n' "$work"
		} | sqlite3 "$place/$mode.db" >"$T/out.${place##*/}"
	done
	mv "$T/out.${T##*/}" "$T/out.local"
	grep -qx ok "$T/out.mnt"
	diff "$T/out.local" "$T/out.mnt"
done

# Many small transactions, each with its own fsync.
for ((i = 0; i < 200; i++)); do
	printf 'insert into t(name) values("row %d");\n' $i
done | sqlite3 "$M/delete.db"
equal "$(sqlite3 "$M/delete.db" 'select count(*) from t where name like "row%"')" \
	200 "rows"

# It survives the server's restart.
umount_at "$M"
stop_server
start_server
mount_at "$M"
equal "$(sqlite3 "$M/delete.db" 'pragma integrity_check')" ok integrity
umount_at "$M"
stop_server
