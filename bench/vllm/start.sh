#!/usr/bin/env bash
# The commands of docs/vllm.md on a fresh virtual environment, timed from pip to the first token.
#     bench/vllm/start.sh FOLDER [WHEEL]
# WHEEL: of Croupier; none: one is made of the package that package.sh packed. vLLM itself is where the pack has it,
# for a host without a registry has no wheel of it; torch is the host's. FOLDER/start.json has the seconds. RELEASE is vLLM's (env.sh).
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[ $# -ge 1 ] || { sed -n 2,6p bench/vllm/start.sh >&2; exit 2; }
folder=$1 wheel=${2:-}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
. bench/vllm/env.sh

if [ -z "$wheel" ]; then
    # With the binaries as they were stripped: what pip does with it is the same.
    info=$(cd "$here/croupier" && ls -d croupier-*.dist-info)
    [ -e "$here/croupier/$info/WHEEL" ] || { echo "the package has no WHEEL: give one" >&2; exit 2; }
    tag=$(sed -n 's/^Tag: //p' "$here/croupier/$info/WHEEL" | head -1)
    wheel=$folder/${info%.dist-info}-$tag.whl
    (cd "$here/croupier" && python3 - "$wheel" <<'END'
import pathlib, sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as wheel:
    for top in pathlib.Path(".").glob("croupier*"):
        for path in sorted(top.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                wheel.write(path)
END
    )
fi
# The virtual environment alone may know Croupier.
export PYTHONPATH=$vllm:$vllm/site:$PWD/bench/vllm
unset LD_LIBRARY_PATH
now() { date +%s.%N; }
begun=$(now)
python3 -m venv --system-site-packages "$folder/venv" || exit 1
# A host's Python may be a virtual environment itself, whose packages the new one does not see.
if ! "$folder/venv/bin/python" -c 'import torch' 2>/dev/null; then
    python3 -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])' \
        >"$(echo "$folder"/venv/lib/python3*/site-packages)/host.pth"
fi
made=$(now)
"$folder/venv/bin/pip" install -q --disable-pip-version-check --no-index --no-deps --force-reinstall "$wheel" || exit 1
installed=$(now)
status=0
BEGUN=$begun MADE=$made INSTALLED=$installed "$folder/venv/bin/python" bench/vllm/first_token.py "$folder" \
    >"$folder/log.txt" 2>&1 || status=$?
[ "$status" = 0 ] || tail -n 20 "$folder/log.txt"
cat "$folder/start.json"
rm -rf "$folder/venv" "$folder/model" "$folder"/*.whl
exit "$status"
