#!/usr/bin/env bash
# What a GPU host without a package registry needs to run the scripts beside this one, as archives in a folder:
#     bench/sglang/package.sh FOLDER SITE [PACK]
# SITE: a wheel of Croupier (./dev wheel), or a folder with the package croupier in it, whose archive takes along
# the libraries that a bare host lacks. PACK: of SGLang (pack.py); unless given, the one that is in FOLDER already.
# kernels.tar.xz of an earlier run stays where it is.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ $# -ge 2 ] || { sed -n 2,7p bench/sglang/package.sh >&2; exit 2; }
to=$1 site=$2
mkdir -p "$to"
[ $# -lt 3 ] || cp "$3" "$to/sglang-0.5.17.tar.xz"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -d "$site" ]; then
    cp -rL "$site/croupier" "$work/"
else
    unzip -q "$site" -x '*.dist-info/*' -d "$work"
fi
rm -rf "$work"/croupier/{serving,sglang,vllm}
cp -r python/src/croupier/{serving,sglang} "$work/croupier/"
mkdir -p "$work/croupier/lib" "$work/bench"
cp bench/sglang/*.py "$work/bench/"
find "$work" -name __pycache__ -prune -exec rm -rf {} +
rm -f "$work"/croupier/bin/croupier-{bench,sim}

# Without these nothing finds the plugins, as after an installation.
plugin() {
    mkdir "$work/$1-0.dist-info"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: 0\n' "$1" >"$work/$1-0.dist-info/METADATA"
    printf '[sglang.srt.plugins]\n%s = %s:register\n' "$1" "$2" >"$work/$1-0.dist-info/entry_points.txt"
}
plugin croupier croupier.sglang
plugin croupier_bench weights

find "$work/croupier" -type f \( -name '*.so*' -o -path '*/bin/*' \) -print0 |
    { xargs -0 ldd 2>/dev/null || true; } |
    awk -v own="$work/" '$3 ~ /^\// && index($3, own) != 1 { print $3 }' | sort -u |
    { grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s|libcuda)\.so' || true; } |
    xargs -r cp -Lt "$work/croupier/lib"
strip --strip-unneeded "$work"/croupier/lib/* "$work"/croupier/bin/* 2>/dev/null || true
tar c --sort=name -C "$work" . | xz --x86 --lzma2=preset=6,dict=64MiB >"$to/croupier.tar.xz"
du -shc "$to"/*
