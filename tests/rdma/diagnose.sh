# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# diagnose.sh - what a doctor finds; for the tests here, after lib.sh

# diagnose STATUS COMMAND...: the findings are in $T/findings.
diagnose() {
	local status=$1 got=0
	shift
	"$@" >"$T/findings" 2>"$T/stderr" || got=$?
	[ "$got" -eq "$status" ] ||
		fail "$* ended with $got, not $status: $(cat "$T/findings" "$T/stderr")"
}

# found WORDS: there is a line with them.
found() {
	grep -qE -- "$1" "$T/findings" ||
		fail "no finding '$1' in: $(cat "$T/findings")"
	say "ok: $(grep -E -- "$1" "$T/findings" | head -n 1)"
}

# advised CODE WORDS: what the finding CODE says is to be done.
advised() {
	grep -A1 -E "\[$1\]" "$T/findings" | grep -qE -- "-> .*$2" ||
		fail "finding $1 does not advise '$2': $(cat "$T/findings")"
}
