#!/usr/bin/env bash
# Compares lean steps of two builds on a GPU host, alternating between them. Run from the repository's root, with
# build/bundle made by `./dev bundle`, and croupier, croupierd and croupier-sim of the previous build in build/bundle/old.
#   [MIXES=..] [BATCHES=..] [ROUNDS=3] OUT=FOLDER bench/gpu/lean_turns.sh [SAMPLERS]     writes FOLDER/lean-turns.json
# OPTIONS: options of all runs, such as --await-tokens; NEW_OPTIONS: options of the new build only.
# Times are from logits to tokens in GPU memory. Tokens are not verified; lean_steps.sh does that.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
bundle=$PWD/build/bundle samplers=${1:-14} out=${OUT:-bench/results} steps=${STEPS:-300}
[ -x "$bundle/old/croupier" ] || { echo "cannot find $bundle/old/croupier: copy the previous build there" >&2; exit 1; }
. bench/gpu/cublas.sh
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for round in $(seq "${ROUNDS:-3}"); do
    for mix in ${MIXES:-fixed fixed-temperature fixed-top-p}; do
        for batch in ${BATCHES:-1 64 256}; do
            for build in old bin; do
                options=${OPTIONS:-}
                [ "$build" = old ] || options+=" ${NEW_OPTIONS:-}"
                # shellcheck disable=SC2086
                timeout 60 "$bundle/run" "$bundle/$build/croupier" sim --writer cuda --samplers "$samplers" --json --verify never \
                    --batch "$batch" --in-flight 1 --mix "$mix" --wait spin --transport lean --prompt-max 1024 \
                    --output-max "$steps" --steps "$steps" $options >"$work/$mix.$batch.$build.$round" 2>"$work/err" ||
                    { echo "$mix, $batch columns, $build:" >&2; tail -n 3 "$work/err" >&2; }
            done
        done
    done
done
python3 - "$work" "$out/lean-turns.json" "$samplers" <<'END'
import json, pathlib, statistics, sys
sys.path.insert(0, "bench/gpu")
import collect
found = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.*.*.*")):
    mix, batch, build, _ = path.name.split(".")
    try:
        run = json.loads(path.read_text())
    except ValueError:
        continue
    of = found.setdefault((mix, int(batch)), {}).setdefault("new" if build == "bin" else "old", [])
    of.append({"gpu_us": run["hbm_to_hbm_us"], "decision_us": run["decision_us"],
               "column_us": run["daemon"]["column_mean_us"]})
rows = []
for (mix, batch), builds in sorted(found.items()):
    row = {"mix": mix, "columns": batch, **builds}
    middle = {b: statistics.median(r["gpu_us"]["p50"] for r in runs) for b, runs in builds.items()}
    row["gpu_us_p50"] = middle
    rows.append(row)
    print(mix, batch, {b: [(round(r["gpu_us"]["p50"], 1), round(r["gpu_us"]["p99"], 1)) for r in runs] for b, runs in builds.items()})
result = {"command": f"bench/gpu/lean_turns.sh {sys.argv[3]}", "environment": collect.environment(), "results": rows}
json.dump(result, open(sys.argv[2], "w"), indent=1)
END
