# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# diagnose.sh - what a doctor finds; for the tests here, after guest.sh

# diagnose STATUS COMMAND...: the findings are in $T/findings.
diagnose() {
	local status=$1 got=0
	shift
	"$@" >"$T/findings" 2>"$T/stderr" || got=$?
	[ "$got" -eq "$status" ] ||
		fail "$* ended with $got, not $status: $(cat "$T/findings" "$T/stderr")"
}

# found WORDS: there is a line with them (a regular expression).
found() {
	local line
	while IFS= read -r line; do
		[[ $line =~ $1 ]] || continue
		say "ok: $line"
		return
	done <"$T/findings"
	fail "no finding '$1' in: $(cat "$T/findings")"
}

# advised CODE WORDS: what the finding CODE says is to be done.
advised() {
	local line is_next='' code="\\[$1\\]" advice="-> .*$2"
	while IFS= read -r line; do
		[[ -z $is_next || ! $line =~ $advice ]] || return 0
		is_next=
		[[ ! $line =~ $code ]] || is_next=yes
	done <"$T/findings"
	fail "finding $1 does not advise '$2': $(cat "$T/findings")"
}
