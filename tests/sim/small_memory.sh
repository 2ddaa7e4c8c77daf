#!/usr/bin/env bash
# A session that asks for no transport is served where the memory has room for its rows, and none for what it offers.
#   tests/sim/small_memory.sh BIN
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: $0 BIN (a folder with croupierd and croupier-sim)" >&2; exit 2; }
sim=$(realpath "$1")/croupier-sim
unshare --user --mount --map-root-user true 2>/dev/null || { echo "this user may make no namespaces"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# 5.3 MiB of rows, beside a plane and token logs of half a MiB each: what is left has no room for the lean parts.
unshare --user --mount --map-root-user bash -euo pipefail -c '
    mkdir "$2/shm"
    mount -t tmpfs -o size=6300k,mode=700 tmpfs "$2/shm"
    run() {
        "$1" --shm-dir "$2/shm" --vocab 16384 --batch 64 --steps 20 --output-max 20 --prompt-max 100 --transport "$3" \
            >"$2/log" 2>&1
    }
    run "$1" "$2" auto || { tail -20 "$2/log"; exit 1; }
    ! run "$1" "$2" lean || { echo "the memory has room for lean parts: this test needs less"; exit 1; }
    grep -q "cannot allocate" "$2/log"
' bash "$sim" "$work"
