#!/usr/bin/env bash
# Dependencies between the folders run one way (docs/architecture.md). This is the table, and its check.
set -euo pipefail
cd "$(dirname "$0")/../.."

declare -A MAY_INCLUDE=(
    [proto]="proto"
    [shm]="croupier proto shm"
    [request]="proto request"
    [sampler]="proto request sampler"
    [hot_sets]="proto request sampler hot_sets"
    [config]="proto config"
    [command_line]="config command_line"
    [host]="host"
    [client]="croupier proto shm text client"
    [gpu_writer]="croupier proto request shm gpu_writer"
    [fan_out]="croupier proto shm event_log client gpu_writer fan_out"
    [in_process]="croupier proto request shm sampler client in_process"
    [event_log]="command_line event_log"
    [html]="html"
    [text]="proto text"
    [explain]="proto request sampler config html text explain"
    [daemon]="proto request shm sampler hot_sets config command_line host event_log html text explain daemon"
    [measurement]="croupier proto request shm sampler command_line measurement"
    [testing]="croupier proto request shm sampler client gpu_writer testing"
    [tools]="croupier proto request shm sampler hot_sets config command_line host event_log client gpu_writer fan_out testing measurement html text explain sim tools"
    [sim]="croupier proto request shm sampler config command_line client gpu_writer testing sim"
    [python]="croupier proto request python"
    [bench]="croupier proto request shm sampler hot_sets config command_line client gpu_writer fan_out testing measurement html text explain bench"
    [include]="croupier"
)

failures=0
for folder in "${!MAY_INCLUDE[@]}"; do
    allowed=" ${MAY_INCLUDE[$folder]} "
    while IFS=: read -r file line text; do
        [ -n "$file" ] || continue
        target=$(sed -E 's/.*"([a-z_]+)\/.*/\1/' <<<"$text")
        if [[ "$allowed" != *" $target "* ]]; then
            echo "$file:$line: $folder/ may not include $target/ (it may:${allowed})"
            failures=$((failures + 1))
        fi
    done < <(grep -rnE '^#include "[a-z_]+/' "$folder" --include='*.h' --include='*.hpp' --include='*.cpp' --include='*.c' --include='*.cu' --include='*.cuh' || true)
done
# The rooms of daemon/: what each may include besides itself.
declare -A ROOM_MAY_INCLUDE=(
    [worker]="worker"
    [control]="worker control"
    [observation]="worker control observation"
    [supervisor]="worker control observation supervisor"
)
for room in "${!ROOM_MAY_INCLUDE[@]}"; do
    allowed=" ${ROOM_MAY_INCLUDE[$room]} "
    while IFS=: read -r file line text; do
        [ -n "$file" ] || continue
        target=$(sed -E 's/.*"daemon\/([a-z_]+)\/.*/\1/' <<<"$text")
        [[ "$allowed" == *" $target "* ]] && continue
        echo "$file:$line: daemon/$room/ may not include daemon/$target/ (it may:${allowed})"
        failures=$((failures + 1))
    done < <(grep -rnE '^#include "daemon/[a-z_]+/' "daemon/$room" --include='*.h' --include='*.cpp' || true)
done
# sampler/ takes plain types and numbers from proto/, and of the layouts a lean column's.
while IFS=: read -r file line text; do
    [ -n "$file" ] || continue
    echo "$file:$line: sampler/ may include proto/'s plain types only: $text"
    failures=$((failures + 1))
done < <(grep -rnE '^#include "proto/' sampler | grep -vE 'proto/(sampling|decision|dtype|lean_part|param_ranges|philox|race|racers|row_spread|hot_set)\.h' || true)

# Python: what engines share knows none of them, and no plugin another one.
declare -A PLUGIN_MAY_NOT_IMPORT=([serving]="vllm|sglang" [vllm]="sglang" [sglang]="vllm")
for package in "${!PLUGIN_MAY_NOT_IMPORT[@]}"; do
    while IFS=: read -r file line text; do
        [ -n "$file" ] || continue
        echo "$file:$line: croupier.$package may not import this: $text"
        failures=$((failures + 1))
    done < <(grep -rnE "^ *(from|import) (croupier\.)?(${PLUGIN_MAY_NOT_IMPORT[$package]})\b" \
        "python/src/croupier/$package" --include='*.py' || true)
done

if [ "$failures" -gt 0 ]; then
    echo "$failures include(s) run against the order of the folders"
    exit 1
fi
echo "every include follows the order of the folders"
