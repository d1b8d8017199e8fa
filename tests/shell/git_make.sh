#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# This repository is cloned onto the mount, checked by git, changed, and built; and
# thousands of objects are committed, packed, cloned and checked out there.
. "$(dirname "$0")/lib.sh"
command -v git >/dev/null || skip "git is not installed"
git -C "$ROOT" -c safe.directory='*' rev-parse HEAD >/dev/null 2>&1 ||
	skip "not run from a git repository"

export GIT_CONFIG_COUNT=3
export GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
export GIT_CONFIG_KEY_1=user.name GIT_CONFIG_VALUE_1=test
export GIT_CONFIG_KEY_2=user.email GIT_CONFIG_VALUE_2=test@example.com
serve_and_mount

# A copy that nobody commits to meanwhile.
git clone -q --mirror "$ROOT" "$T/source.git"
git clone -q --no-hardlinks "$T/source.git" "$M/clone"
cd "$M/clone" || exit
git fsck --full
equal "$(git rev-parse HEAD)" "$(git -C "$T/source.git" rev-parse HEAD)" "HEAD"
equal "$(git status --porcelain)" "" "git status after a clone"

git checkout -q -b work
# With what is there already: 3000 objects.
files=800
[ -z "$LONG" ] || files=3000
printf 'more\n' >>README.md
for ((i = 0; i < files; i++)); do
	[ $((i % 100)) -ne 0 ] || mkdir -p many/$((i / 100))
	printf 'number %d\n' $i >many/$((i / 100))/$i
done
git add README.md many
git commit -q -m change
git gc -q
git fsck --full
git clone -q --no-hardlinks . "$M/second"
git -C "$M/second" fsck --full
equal "$(git -C "$M/second" ls-files many | wc -l)" $files "files of the second clone"
equal "$(git -C "$M/second" status --porcelain)" "" "git status of the second clone"
git checkout -q -
[ ! -e many ] || fail "a checkout left files behind"
git checkout -q work
equal "$(git status --porcelain)" "" "git status after checkouts"
git checkout -q -
git branch -q -D work
equal "$(git status --porcelain)" "" "git status after all"

# One library of the clone, compiled on the mount: makes, writes, links, stats.
if [ -e Makefile ]; then
	make -j2 BUILD=build build/libproto.a
	touched=$(make BUILD=build build/libproto.a)
	case $touched in
	*"up to date"*) ;;
	*) fail "the second make did something: $touched" ;;
	esac
	[ -z "$LONG" ] || make -j2 BUILD=build
fi
cd /
umount_at "$M"
stop_server
