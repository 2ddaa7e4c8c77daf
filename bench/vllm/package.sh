#!/usr/bin/env bash
# What a GPU host without a package registry needs to run the scripts beside this one, as archives in build/vllm/:
#     [LLGUIDANCE=WHEEL] [SERVER=FOLDER] [TOKENIZER=tokenizer.json[.gz]] [IPROUTE=1] bench/vllm/package.sh PACK SITE
# PACK: vLLM and what it imports (an xz archive with sitecustomize.py and site/); SITE: a wheel of Croupier, or a
# folder with the package croupier in it, whose archive takes along the libraries that a bare host lacks.
# Each release of vLLM has an archive of its own, vllm-RELEASE.tar.xz: send the one that is to run.
# LLGUIDANCE: for grammars, where the pack has only a module that stands for it; it comes first on the path.
# SERVER: a folder of wheels that `vllm serve` needs and the pack lacks: model-hosting-container-standards, jmespath,
# ijson, supervisor, and xgrammar; for 0.33 also orjson, anthropic, docstring-parser and oss-harmony.
# TOKENIZER: for grammars too, and for servers.
# IPROUTE=1: takes this host's `ip` and `tc` along, for hosts.sh on a host that lacks them.
# Kernels of an earlier run (build/vllm/flashinfer.tar.xz) stay where they are.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ $# -eq 2 ] || { sed -n 2,12p bench/vllm/package.sh >&2; exit 2; }
pack=$1 site=$2 to=build/vllm
release=$(tar tJf "$pack" | sed -n 's|.*site/vllm-\([0-9][^/+]*\)[^/]*\.dist-info/.*|\1|p' | sort -u)
[ -n "$release" ] || { echo "$pack has no site/vllm-*.dist-info, which says vLLM's release" >&2; exit 2; }
rm -rf "$to/site" "$to/croupier.tar.xz" "$to/vllm-$release.tar.xz"
mkdir -p "$to/site"
if [ -d "$site" ]; then
    cp -rL "$site/croupier" "$to/site/"
else
    unzip -q "$site" -d "$to/site"
fi
rm -rf "$to"/site/croupier/{serving,vllm}
cp -r python/src/croupier/{serving,vllm} "$to/site/croupier/"
mkdir -p "$to/site/croupier/lib"
find "$to/site" -name __pycache__ -prune -exec rm -rf {} +
rm -f "$to"/site/croupier/bin/croupier-{bench,sim}

# Without it nothing finds the plugin, as after an installation.
if ! ls -d "$to"/site/croupier-*.dist-info >/dev/null 2>&1; then
    info=$to/site/croupier-0.dist-info
    mkdir "$info"
    printf 'Metadata-Version: 2.1\nName: croupier\nVersion: 0\n' >"$info/METADATA"
fi
for info in "$to"/site/croupier-*.dist-info; do
    grep -qs croupier.vllm "$info/entry_points.txt" ||
        printf '[vllm.general_plugins]\ncroupier = croupier.vllm:register\n' >>"$info/entry_points.txt"
done

[ -z "${IPROUTE:-}" ] || cp -L "$(command -v ip)" "$(command -v tc)" "$to/site/croupier/bin/"
# A wheel that was repaired has its own copies; what is still the host's comes along.
find "$to/site/croupier" -type f \( -name '*.so*' -o -path '*/bin/*' \) -print0 |
    { xargs -0 ldd 2>/dev/null || true; } |
    awk -v own="$PWD/$to/" '$3 ~ /^\// && index($3, own) != 1 { print $3 }' | sort -u |
    { grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s|libcuda)\.so' || true; } |
    xargs -r cp -Lt "$to/site/croupier/lib"
strip --strip-unneeded "$to"/site/croupier/lib/* "$to"/site/croupier/bin/* 2>/dev/null || true

[ -z "${LLGUIDANCE:-}" ] || unzip -qo "$LLGUIDANCE" -d "$to/site"
if [ -n "${SERVER:-}" ]; then
    for wheel in "$SERVER"/*.whl; do
        unzip -qo "$wheel" -d "$to/site"
    done
fi
if [ -n "${TOKENIZER:-}" ]; then
    mkdir "$to/site/tokenizer"
    case $TOKENIZER in
    *.gz) gzip -dc "$TOKENIZER" >"$to/site/tokenizer/tokenizer.json" ;;
    *) cp "$TOKENIZER" "$to/site/tokenizer/tokenizer.json" ;;
    esac
    cat >"$to/site/tokenizer/tokenizer_config.json" <<'END'
{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
END
fi

# What travels has a limit: by files in their order and the filter for instructions it is a fifth less.
tar c --sort=name -C "$to/site" . | xz --x86 --lzma2=preset=9e,dict=64MiB >"$to/croupier.tar.xz"
rm -rf "$to/site"
cp "$pack" "$to/vllm-$release.tar.xz"
du -shc "$to"/*
