#!/usr/bin/env bash
# Measures the samplers on a GPU host's processor, in about nine minutes. Run from the repository's root, with
# build/bundle made by `./dev bundle` and a folder of rows from a real model.
#   OUT=FOLDER bench/gpu/samplers.sh ROWS     ROWS contains rows0.bf16, rows1.bf16 and hot_rank.i32
# First runs the timed parts one by one, then the parts that count, on all cores.
set -uo pipefail
cd "$(dirname "$0")/../.."
bundle=$PWD/build/bundle
rows=${1:?a folder with rows0.bf16, rows1.bf16 and hot_rank.i32}
out=${OUT:-bench/results}
traces=(--rows "$rows/rows0.bf16" "$rows/rows1.bf16")
hot=(--hot "$rows/hot_rank.i32")
failures=0

[ -x "$bundle/run" ] || { echo "cannot find $bundle: create it with ./dev bundle" >&2; exit 1; }
mkdir -p "$out"

# result NAME ARGUMENTS...: writes croupier's JSON to NAME.json.
result() {
    local name=$1 began=$SECONDS
    if "$bundle/run" croupier "${@:2}" >"$out/$name.json" 2>"$out/$name.err"; then
        rm -f "$out/$name.err"
        echo "$name: $((SECONDS - began)) s"
    else
        echo "$name: failed"
        tail -n 3 "$out/$name.err"
        return 1
    fi
}

result decide bench decide "${traces[@]}" --json || failures=$((failures + 1))
result decide-history-128k bench decide "${traces[@]}" --history 131072 --cases full,full+dry --json ||
    failures=$((failures + 1))
result shvs bench shvs "${traces[@]}" "${hot[@]}" --json || failures=$((failures + 1))
result controller bench controller "${traces[@]}" "${hot[@]}" --json || failures=$((failures + 1))
for temperature in 0.6 0.8 1.0; do
    "$bundle/run" croupier hotset size "${traces[@]}" "${hot[@]}" --temperature "$temperature" \
        --save "$out/size-$temperature.json" --html "$out/size-$temperature.html" 2>/dev/null |
        tail -n 7 || failures=$((failures + 1))
done

parts=()
for size in 0 1024 4096 16384 65536 151936; do
    result "tvd-$size" bench tvd "${traces[@]}" "${hot[@]}" --draws 2000 --sizes "$size" --json &
    parts+=($!)
done
result truncated bench tvd "${traces[@]}" "${hot[@]}" --truncated --steps 400 --decisions 256 --json &
parts+=($!)
for part in "${parts[@]}"; do wait "$part" || failures=$((failures + 1)); done
# One archive, because the number of returned files is limited.
cd "$out" && tar -czf samplers.tar.gz ./*.json ./*.html
echo "$failures part(s) failed; results are in $out"
exit "$failures"
