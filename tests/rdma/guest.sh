# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# guest.sh - what the tests in the virtual machine begin with, instead of lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../shell/lib.sh"

modprobe fuse
# What takes a moment elsewhere takes long on emulation, and longer on a busy machine.
PATIENCE=3000
MOUNT_OPTIONS=mount_timeo=120

# The same without a program: to start one costs more here than the wait.
exec {PAUSES}<> <(:)
pause() {
	read -r -t 0.1 -u "$PAUSES" || true
}
