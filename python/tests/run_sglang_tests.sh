#!/usr/bin/env bash
# run_sglang_tests.sh BUILD: runs the plugin's tests in SGLang 0.5.17 against this build. No GPU is needed: SGLang runs
# on the CPU. TESTS are the tests' files, all of the plugin's unless given.
# The virtual environment of about 6 GB is kept below BUILD/sglang; the first time takes minutes.
set -euo pipefail
package=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
release=0.5.17
"$package/install.sh" "$build"
installed=$(echo "$build"/python/venv/lib/python3*/site-packages)
place=$build/sglang/$release
if [ ! -e "$place/complete" ]; then
    # Of the same Python: Croupier comes from there.
    "$build/python/venv/bin/python" -m venv --clear "$place"
    "$place/bin/python" -m pip install -q --disable-pip-version-check -r "$package/requirements.txt" \
        -r "$package/tests/sglang-requirements.txt"
    "$place/bin/python" -m pip install -q --disable-pip-version-check --no-deps "sglang==$release"
    touch "$place/complete"
fi
site=$(echo "$place"/lib/python3*/site-packages)
rm -rf "$site"/croupier "$site"/croupier-*.dist-info
cp -r "$installed"/croupier "$installed"/croupier-*.dist-info "$site/"
# shellcheck disable=SC2086
cd "$package" && exec "$place/bin/python" -m pytest -o faulthandler_timeout=600 -o cache_dir="$place/pytest" \
    ${TESTS:-tests/sglang_*_test.py}
