#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Names are bytes: of 255, UTF-8 and not, with everything but / and NUL.
. "$(dirname "$0")/lib.sh"
export LC_ALL=C

serve_and_mount
repeat() { # TEXT TIMES
	local out
	printf -v out "%$2s" ''
	printf '%s' "${out// /$1}"
}

names=(
	a "$(repeat a 255)" "$(repeat $'\xc3\xa4' 127)" "$(repeat $'\xff' 255)"
	$'\xc3\xa4' $'a\xcc\x88' $'\xe4' $'new\nline' ' blank ' '-rf' '*' '\' '"'
	$'\x01\x7f' '...' '.hidden' "it's" $'\xed\xa0\x80' CASE case
)
for place in "$T/local" "$M/remote"; do
	mkdir "$place"
	for name in "${names[@]}"; do
		printf '%s' "$name" >"$place/$name"
	done
done
list() {
	(cd "$1" && find . -mindepth 1 -print0 | sort -z)
}
cmp <(list "$T/local") <(list "$M/remote")
for name in "${names[@]}"; do
	equal "$(cat "$M/remote/$name"; echo .)" "$name." "bytes of a file"
done
diff -r "$T/local" "$M/remote"

long=$(repeat x 256)
if mkdir "$M/$long" 2>"$T/stderr"; then
	fail "a name of 256 bytes was taken"
fi
grep -q 'File name too long' "$T/stderr"

# Renamed to and from, linked, removed.
mv "$M/remote/${names[1]}" "$M/remote/${names[1]%a}b"
ln "$M/remote/${names[3]}" "$M/remote/link"
equal "$(stat -c %h "$M/remote/link")" 2 "links"
ln -s "$(repeat t 4095)" "$M/remote/far"
equal "$(readlink "$M/remote/far")" "$(repeat t 4095)" "a long target"
for name in "${names[@]:2}"; do
	rm -- "$M/remote/$name"
done
rm "$M/remote/a" "$M/remote/link" "$M/remote/far" "$M/remote/${names[1]%a}b"
rmdir "$M/remote"
umount_at "$M"
stop_server
