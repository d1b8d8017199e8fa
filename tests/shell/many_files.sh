#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Thousands of files in one directory are made, listed without one missing or
# twice, also while others come and go, and removed.  LONG=1: 100,000.
. "$(dirname "$0")/lib.sh"

count=10000
[ -z "$LONG" ] || count=100000
serve_and_mount
mkdir "$M/many"
cd "$M/many" || exit
seq -f 'file.%07g' 1 $count >"$T/want"
xargs touch <"$T/want"
# -f: as the directory gives them.
# shellcheck disable=SC2010
ls -f1 | grep -vxF -e . -e .. | sort >"$T/got"
cmp "$T/want" "$T/got"
equal "$(find . -type f | wc -l)" $count "files that find sees"
ls -l >"$T/long"
equal "$(wc -l <"$T/long")" $((count + 1)) "lines of ls -l"

# Names that stay are listed once while others are made and removed.
(
	for ((i = 0; i < count / 20; i++)); do
		: >"new.$i"
		rm "file.$(printf %07d $((i * 2 + 1)))"
	done
) &
changer=$!
sed -n 'n;p' "$T/want" >"$T/stay"
for round in 1 2 3 4 5; do
	# shellcheck disable=SC2010
	ls -f1 | grep '^file' | sort >"$T/got"
	equal "$(uniq -d "$T/got" | wc -l)" 0 "names seen twice, round $round"
	comm -23 "$T/stay" "$T/got" >"$T/lost"
	[ ! -s "$T/lost" ] || fail "lost while listing: $(head -n 3 "$T/lost")"
done
wait $changer

if rmdir "$M/many" 2>/dev/null; then
	fail "rmdir of a directory that is not empty succeeded"
fi
cd "$M" || exit
rm -r many
equal "$(ls -A)" "" "what is left"
cd /
umount_at "$M"
stop_server
