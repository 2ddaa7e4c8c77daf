#!/usr/bin/env bash
# Compares two builds that decide steps of an engine with a stage time: bench/paced_turns.sh OLD_BIN NEW_BIN OUT.json
#   [ROUNDS=5] [STAGE_MS=5] [SETTINGS="BATCH:MIX ..."] [OPTIONS="--wait adaptive"]
# OLD_BIN and NEW_BIN are folders with croupier, croupierd and croupier-sim. Writers send lean steps; nothing is verified.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -eq 3 ] || { sed -n 2,3p "$0" >&2; exit 2; }
old=$1 new=$2 out=$3 rounds=${ROUNDS:-5} stage_ms=${STAGE_MS:-5} options=${OPTIONS:---wait adaptive}
settings=${SETTINGS:-1:fixed 1:fixed-temperature 1:fixed-top-p 8:fixed 8:fixed-temperature 8:fixed-top-p}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for round in $(seq "$rounds"); do
    for setting in $settings; do
        for build in old new; do
            # shellcheck disable=SC2086
            "${!build}/croupier" sim --samplers 1 --batch "${setting%%:*}" --in-flight 1 --mix "${setting#*:}" $options --transport lean \
                --prompt-max 1024 --output-max 200 --steps 200 --stage-ms "$stage_ms" --verify never --json 2>/dev/null |
                tail -n 1 >"$work/$setting.$build.$round"
            echo "round $round of $rounds: $setting, $build" >&2
        done
    done
done
python3 - "$work" "$out" "$rounds" "$stage_ms" "$options" <<'END'
import json, pathlib, statistics, sys
sys.path.insert(0, "bench/gpu")
import collect
work, out, rounds, stage_ms, options = sys.argv[1:]
found = {}
for path in sorted(pathlib.Path(work).iterdir()):
    setting, build, _ = path.name.split(".")
    run = json.loads(path.read_text())
    found.setdefault(setting, {}).setdefault(build, []).append(
        {"decision_us": run["decision_us"], "column_mean_us": run["daemon"]["column_mean_us"]})
rows = []
for setting, builds in sorted(found.items()):
    middle = {build: {"p50": statistics.median(run["decision_us"]["p50"] for run in runs),
                      "p99": statistics.median(run["decision_us"]["p99"] for run in runs),
                      "column_mean": statistics.median(run["column_mean_us"] for run in runs)} for build, runs in builds.items()}
    rows.append({"columns": int(setting.split(":")[0]), "mix": setting.split(":")[1], "median_us": middle, **builds})
    print(setting, *(f"{build} {m['p50']:.1f} p99 {m['p99']:.1f} column {m['column_mean']:.1f}" for build, m in sorted(middle.items(), reverse=True)))
command = f"ROUNDS={rounds} STAGE_MS={stage_ms} OPTIONS={options!r} bench/paced_turns.sh OLD_BIN NEW_BIN OUT.json"
json.dump({"command": command, "environment": collect.environment(), "results": rows}, open(out, "w"), indent=1)
END
