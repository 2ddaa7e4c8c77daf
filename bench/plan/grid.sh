#!/usr/bin/env bash
# Compares `croupier plan` with `croupier sim` on this host, for twelve settings that were not measured. Run from the
# repository's root, with build/bundle made by `./dev bundle`. Takes eight minutes on 16 cores; no GPU, no network.
#   OUT=FOLDER bench/plan/grid.sh           default: bench/results; writes plan-measured.json, plan-grid.json, plan-default.json, plan.txt
#   CORES=2 OUT=FOLDER bench/plan/grid.sh   smaller settings for a host with few cores
# Exits with 1 if an error at p50 is above 20 %.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-bench/results}
cores=${CORES:-$(nproc)}
run=${RUN:-build/bundle/run}
[ -x "$run" ] || { echo "cannot find $run: create it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out"
began=$SECONDS

# vocabulary, batch, ranks, stage in ms, samplers, mix
if [ "$cores" -ge 16 ]; then
    measured=(--vocab 32000,151936 --batch 16,64,256 --tp 1,4 --samplers 1,4,10 --stage-ms 5,20 --mix fixed,full)
    settings=(
        "151936 64 1 20 2 fixed" "151936 64 1 10 8 fixed" "151936 128 1 20 6 full"
        "128256 64 1 10 6 fixed" "128256 128 1 20 8 full" "32000 64 1 5 3 full"
        "32000 192 1 5 8 fixed" "64000 32 1 10 2 full" "151936 32 2 10 6 fixed"
        "151936 128 4 10 8 fixed" "128256 64 4 10 9 full" "100000 96 2 15 5 full")
else
    measured=(--vocab 16000,64000 --batch 4,32 --tp 1 --samplers 1,2 --stage-ms 5,20 --mix fixed,full)
    settings=(
        "24000 8 1 5 1 fixed" "24000 8 1 5 2 fixed" "24000 16 1 5 1 full" "24000 16 1 5 2 full"
        "32000 8 1 5 1 fixed" "32000 8 1 5 2 fixed" "32000 16 1 5 1 full" "32000 16 1 5 2 full"
        "48000 8 1 5 1 fixed" "48000 8 1 5 2 fixed" "48000 16 1 5 1 full" "48000 16 1 5 2 full")
fi

"$run" croupier plan measure "${measured[@]}" --save "$out/plan-measured.json"
echo "measured in $((SECONDS - began)) s"
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
for setting in "${settings[@]}"; do
    read -r vocab batch tp stage samplers mix <<<"$setting"
    "$run" croupier plan --from "$out/plan-measured.json" --vocab "$vocab" --batch "$batch" --tp "$tp" \
        --stage-ms "$stage" --samplers "$samplers" --mix "$mix" --check --json >>"$lines"
done
# What a newcomer sees.
"$run" croupier plan --check --save "$out/plan-default.json" | tee "$out/plan.txt"
python3 - "$lines" "$out/plan-measured.json" "$out/plan-grid.json" <<'END'
import json, sys
plans = [json.loads(line) for line in open(sys.argv[1])]
rows = []
print("| vocabulary | columns | ranks | stage | samplers | mix | predicted | measured | error |")
print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
for plan in plans:
    asked, step, check = plan["asked"], plan["step"], plan["check"]
    rows.append({**asked, "samplers": plan["samplers"], "predicted_us": step["p50_us"],
                 "measured_us": check["p50_us"], "error": check["error"], "steps": check["steps"]})
    print(f"| {asked['vocab']:,} | {asked['batch']} | {asked['tp']} | {asked['stage_ms']:g} ms | {plan['samplers']} "
          f"| {asked['mix']} | {step['p50_us']:,.0f} us | {check['p50_us']:,.0f} us | {check['error']:+.1%} |")
worst = max(abs(row["error"]) for row in rows)
host = json.load(open(sys.argv[2]))["host"]
json.dump({"what": "bench/plan/grid.sh", "host": host, "worst_error": worst, "settings": rows},
          open(sys.argv[3], "w"), indent=1)
print(f"the worst error at p50 is {worst:.1%}, of {len(rows)} settings")
sys.exit(worst > 0.2)
END
