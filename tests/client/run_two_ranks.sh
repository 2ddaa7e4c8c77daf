#!/usr/bin/env bash
# The example with a process for each rank, against a daemon of its own: it prints eight tokens. Then its scheduler is killed
# while a step waits for rank 1, which has no worker yet, and another one resumes the session: the tokens are the same.
set -euo pipefail
croupierd=$1
example=$2
folder=$(mktemp -d)
cat >"$folder/croupierd.yaml" <<EOF
instance: ranks-$$
run_dir: $folder
samplers: {count: 1}
control: {endpoint: "ipc://$folder/control.sock"}
metrics: {listen: "off"}
EOF
"$croupierd" --config "$folder/croupierd.yaml" 2>"$folder/log" &
started=($!)
trap 'kill "${started[@]}" 2>/dev/null || true; wait || true; rm -rf "$folder"' EXIT

# start_scheduler NAME: in the background; its output's first line, the segment, is in $segment.
start_scheduler() {
    mkfifo "$folder/$1"
    "$example" "ipc://$folder/control.sock" >"$folder/$1" &
    scheduler=$!
    started+=("$scheduler")
    exec {said}<"$folder/$1"
    read -r -u "$said" segment
}
start_worker() {
    "$example" "$segment" "$1" &
    started+=("$!")
}

start_scheduler whole
start_worker 0
start_worker 1
whole=$(cat <&"$said")
wait "$scheduler"
[ "$(grep -cE '^[0-9]+$' <<<"$whole")" -eq 8 ] || { echo "expected eight tokens: $whole"; cat "$folder/log"; exit 1; }

start_scheduler killed
first=$segment
start_worker 0
kill -9 "$scheduler"
wait "$scheduler" 2>/dev/null || true
start_scheduler resumed
[ "$segment" = "$first" ] || { echo "the session was not resumed"; cat "$folder/log"; exit 1; }
start_worker 1
resumed=$(cat <&"$said")
[ "$resumed" = "$whole" ] || { printf 'after a kill:\n%s\nwithout:\n%s\n' "$resumed" "$whole"; exit 1; }
echo "eight tokens, and the same ones after the scheduler was killed: ${whole//$'\n'/ }"
