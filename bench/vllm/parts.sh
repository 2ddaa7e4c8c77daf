# shellcheck shell=bash disable=SC2154
# For the gpu_*.sh beside it: parts of a run with a plan, each with a time of its own, results safe after each.
# Before it is sourced: `out`, the folder that comes back; `total`, the seconds of all. In the repository's root.
# RELEASE is vLLM's: 0.33.0 unless given (env.sh).

begun=$SECONDS
work=$(mktemp -d /tmp/croupier-gpu-XXXXXX)
mkdir -p "$out"
export KEEP_KERNELS=0

say() { printf '[%3d s] %s\n' $((SECONDS - begun)) "$*" | tee -a "$out/plan.txt"; }

# left SECONDS: of a part's own time, what the total leaves.
left() {
    local rest=$((total - (SECONDS - begun)))
    echo $((rest < $1 ? rest : $1))
}

# part NAME SECONDS LEAST SCRIPT [ARGUMENTS]: a script with a budget; nothing where less than LEAST seconds are left.
# The budget ends 25 s early, so that what is under way and the engines end by themselves; behind it comes SIGTERM.
part() {
    local name=$1 seconds least=$3
    seconds=$(left "$2")
    shift 3
    if [ "$seconds" -lt "$least" ]; then
        say "$name: left out, for $seconds s are left of the $least that it needs"
        return 0
    fi
    say "$name: at most $seconds s"
    timeout --kill-after=5 "$seconds" bench/vllm/run.sh "$work/$name" "$@" --budget $((seconds - 25)) \
        >"$work/$name.txt" 2>&1
    say "$name: ended with $?"
    tail -n 14 "$work/$name.txt" | cut -c 1-400
    pack
}

# Each whole at any moment, and few files: a machine gives back eight.
pack() {
    (
        flock 9
        tar c -C "$work" --exclude=model --exclude=venv --exclude='*.whl' --exclude='*.part' . 2>/dev/null | xz -T0 -3 >"$work.tar.xz"
        mv "$work.tar.xz" "$out/results.tar.xz"
    ) 9>"$work.lock"
}

finish() {
    keep_kernels "$out/flashinfer.tar.xz"
    pack
    say "all ended; $(cd "$out" && du -sh ./* | tr '\n\t' '; ')"
}

# FlashInfer's kernels, if the last machine did not send them: beside parts whose time does not count.
compile_kernels() {
    [ ! -d "$vllm/site/flashinfer/data/aot" ] && [ "$VLLM_USE_FLASHINFER_SAMPLER" = 1 ] || return 0
    timeout "$1" python3 -c '
from concurrent.futures import ThreadPoolExecutor
import flashinfer.sampling, flashinfer.topk
modules = flashinfer.sampling.get_sampling_module, flashinfer.topk.get_topk_module
with ThreadPoolExecutor(2) as threads:
    for made in [threads.submit(module) for module in modules]:
        made.result()
' >"$work/kernels.txt" 2>&1
    say "kernels: ended with $?"
}
