#!/usr/bin/env bash
# Two builds of different minor versions of the segment serve each other: each one's engine with the other's
# daemon, and an engine whose daemon is replaced by the other build's while its session lives.
#   tests/abi/two_builds.sh BIN OTHER_BIN
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: $0 BIN OTHER_BIN (folders with croupierd and croupier-sim)" >&2; exit 2; }
ours=$(realpath "$1") other=$(realpath "$2")
shape=(--vocab 8192 --tp 2 --samplers 2 --truncates 100 --verify after)
usual="--batch 24 --prompt-max 600 --output-max 200"
# So many columns that a lean step is told of in parts.
lean="--transport lean --batch 64 --prompt-max 100 --output-max 60"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

decode() {
    local what=$1 engine=$2 daemon=$3
    shift 3
    if ! "$engine/croupier-sim" --croupierd "$daemon" "${shape[@]}" "$@" >"$work/log" 2>&1; then
        echo "FAILED: $what" >&2
        tail -40 "$work/log" >&2
        return 1
    fi
    echo "ok: $what: $(grep -o 'verified .*' "$work/log" | tail -1)"
}

# The daemon's path is a link that is set to another build once the session is there, as an upgrade does.
decode_through_upgrade() {
    local what=$1 engine=$2 before=$3 after=$4 sim
    shift 4
    ln -sfn "$before/croupierd" "$work/croupierd"
    mkdir -p "$work/shm"
    decode "$what" "$engine" "$work/croupierd" --shm-dir "$work/shm" --steps 300 --chaos daemon --kills 6 "$@" &
    sim=$!
    for _ in $(seq 400); do
        compgen -G "$work/shm/*.seg" >/dev/null && break
        sleep 0.05
    done
    ln -sfn "$after/croupierd" "$work/croupierd"
    wait "$sim"
}

# What a session has that asks for no transport; an engine of before 13.12 asks for rows.
auto="--transport auto --batch 64 --prompt-max 100 --output-max 60"
asks_for_nothing() {
    "$1/croupier-sim" --help | grep -qE 'or auto|,auto}'
}
for engine in "$ours" "$other"; do
    asks_for_nothing "$engine" || continue
    beside=$([ "$engine" = "$ours" ] && echo "$other" || echo "$ours")
    read -ra options <<<"$auto"
    decode "an engine of $engine, a daemon of $beside, $auto" "$engine" "$beside/croupierd" --steps 200 "${options[@]}"
    decode_through_upgrade "an engine of $engine, whose daemon of $engine becomes one of $beside, $auto" \
        "$engine" "$engine" "$beside" "${options[@]}"
    decode_through_upgrade "an engine of $engine, whose daemon of $beside becomes one of $engine, $auto" \
        "$engine" "$beside" "$engine" "${options[@]}"
done
for way in "$usual --ahead 3" "$usual --ahead 2 --decisions zmq --summaries" "$usual --randoms ring --chaos samplers --kills 6" "$lean" \
    "$lean --chaos samplers --kills 6"; do
    read -ra options <<<"$way"
    decode "an engine of $1, a daemon of $2, $way" "$ours" "$other/croupierd" --steps 200 "${options[@]}"
    decode "an engine of $2, a daemon of $1, $way" "$other" "$ours/croupierd" --steps 200 "${options[@]}"
done
for way in "$usual" "$lean"; do
    read -ra options <<<"$way"
    decode_through_upgrade "an engine of $1, whose daemon of $1 becomes one of $2, $way" "$ours" "$ours" "$other" "${options[@]}"
    decode_through_upgrade "an engine of $2, whose daemon of $2 becomes one of $1, $way" "$other" "$other" "$ours" "${options[@]}"
done
