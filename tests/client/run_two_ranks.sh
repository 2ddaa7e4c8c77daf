#!/usr/bin/env bash
# The example with a process for each rank, against a daemon of its own: it prints eight tokens. Then one process after
# another is killed while a step waits for rank 1, which has no worker yet, and is started again: the tokens are the same.
set -euo pipefail
croupierd=$1
example=$2
# shellcheck source=tests/client/example_folder.sh
. "$(dirname "$0")/example_folder.sh"
# shellcheck disable=SC2046  # each job is a word
trap 'kill $(jobs -p) 2>/dev/null || true; wait || true; rm -rf "$folder"' EXIT
fail() {
    echo "$1"
    cat "$folder/log"
    exit 1
}

declare -A pid
start_daemon() {
    "$croupierd" --config "$folder/croupierd.yaml" 2>>"$folder/log" &
    pid[daemon]=$!
}
# The first line that it prints, $segment, is there once its first step is submitted; the others come on $said.
start_scheduler() {
    rm -f "$folder/said"
    mkfifo "$folder/said"
    "$example" "ipc://$folder/control.sock" >"$folder/said" &
    pid[scheduler]=$!
    exec {said}<"$folder/said"
    read -r -u "$said" segment
}
start_worker() {
    "$example" "$segment" "$1" &
    pid[worker]=$!
}
killed() {
    kill -9 "$1"
    wait "$1" 2>/dev/null || true
}

start_daemon
start_scheduler
start_worker 0
start_worker 1
whole=$(cat <&"$said")
[ "$(grep -cE '^[0-9]+$' <<<"$whole")" -eq 8 ] || fail "expected eight tokens: $whole"

for victims in scheduler worker daemon "daemon scheduler"; do
    start_scheduler
    first=$segment
    start_worker 0
    for victim in $victims; do killed "${pid[$victim]}"; done
    for victim in $victims; do "start_$victim" 0; done
    [ "$segment" = "$first" ] || fail "after the death of $victims the session was not resumed"
    start_worker 1
    again=$(cat <&"$said")
    [ "$again" = "$whole" ] || fail "after the death of $victims: $again; without: $whole"
done
echo "eight tokens, the same after each kill: ${whole//$'\n'/ }"
