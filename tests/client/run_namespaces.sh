#!/usr/bin/env bash
# A daemon in PID and IPC namespaces of its own, its engine outside: every token is verified, while the engine's
# writers or its scheduler are killed. Exit status 77 where namespaces cannot be made.
set -euo pipefail
croupierd=$1
croupier=$2
unshare --pid --ipc --fork true 2>/dev/null || { echo "this process may not make namespaces"; exit 77; }
folder=$(mktemp -d)
cat >"$folder/croupierd.yaml" <<EOF
instance: apart-$$
run_dir: $folder
shm: {dir: "/dev/shm/croupier-apart-$$"}
samplers: {count: 1}
control: {endpoint: "ipc://$folder/control.sock"}
metrics: {listen: "off"}
EOF
unshare --pid --ipc --fork --kill-child "$croupierd" --config "$folder/croupierd.yaml" 2>"$folder/log" &
apart=$!
end() {
    # SIGTERM goes to the daemon: unshare would not hand it on.
    kill "$(cat "/proc/$apart/task/$apart/children")" 2>/dev/null || true
    wait "$apart" || true
    rm -rf "$folder" "/dev/shm/croupier-apart-$$"
}
trap end EXIT
for chaos in writer client; do
    # The engine waits for the socket of a daemon that is just starting.
    "$croupier" sim --endpoint "ipc://$folder/control.sock" --vocab 4096 --batch 8 --tp 2 --steps 100 \
        --prompt-max 32 --output-max 16 --chaos "$chaos" --kills 3 --json >"$folder/$chaos.json" ||
        { cat "$folder/$chaos.json" "$folder/log"; exit 1; }
    grep -q '"kills":3' "$folder/$chaos.json" || { echo "nothing was killed"; cat "$folder/$chaos.json"; exit 1; }
done
