#!/usr/bin/env bash
# Puts `croupier` and every library that it needs into one folder, for a machine that has none of them (the GPU
# hosts, whose processors have AVX-512): bench/portable.sh build/release/bin/croupier FOLDER, then
# FOLDER/run bench decide --rows ... there.
set -euo pipefail
binary=${1:?the croupier to take along}
folder=${2:?where to put it}
mkdir -p "$folder"
cp "$binary" "$folder/croupier"
ldd "$binary" | grep -o '/[^ ]*' | xargs -I{} cp -L {} "$folder"
cat >"$folder/run" <<'RUN'
#!/bin/sh
here=$(dirname "$0")
exec "$here/ld-linux-x86-64.so.2" --library-path "$here" "$here/croupier" "$@"
RUN
chmod +x "$folder/run"
