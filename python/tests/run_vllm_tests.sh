#!/usr/bin/env bash
# run_vllm_tests.sh BUILD [RELEASE...]: runs the plugin's tests in each release of vLLM, 0.26.0 and 0.33.0 unless given,
# against this build. No GPU is needed: vLLM's engine core runs over a model that is a hash (host_engine.py).
# TESTS are the tests' files: unless given, all of the plugin's, and those that need torch or transformers.
# Each release has a virtual environment of about 6 GB below BUILD/vllm, kept for the next time; the first time takes minutes.
set -euo pipefail
package=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- 0.26.0 0.33.0
"$package/install.sh" "$build"
installed=$(echo "$build"/python/venv/lib/python3*/site-packages)
failed=()
for release in "$@"; do
    place=$build/vllm/$release
    if [ ! -e "$place/complete" ]; then
        # Of the same Python: Croupier comes from there.
        "$build/python/venv/bin/python" -m venv --clear "$place"
        "$place/bin/python" -m pip install -q --disable-pip-version-check -r "$package/requirements.txt" \
            -r "$package/tests/vllm-requirements.txt"
        "$place/bin/python" -m pip install -q --disable-pip-version-check --no-deps "vllm==$release"
        touch "$place/complete"
    fi
    site=$(echo "$place"/lib/python3*/site-packages)
    rm -rf "$site"/croupier "$site"/croupier-*.dist-info
    cp -r "$installed"/croupier "$installed"/croupier-*.dist-info "$site/"
    echo "== vLLM $release"
    # shellcheck disable=SC2086
    # Releases that share a cache ask again for each model, in a process that imports vLLM.
    (cd "$package" && VLLM_CACHE_ROOT=$place/cache "$place/bin/python" -m pytest -o faulthandler_timeout=200 -o cache_dir="$place/pytest" \
        ${TESTS:-tests/vllm_*_test.py tests/verified_model_test.py tests/beams_model_test.py tests/loops_model_test.py}) || failed+=("$release")
done
[ ${#failed[@]} -eq 0 ] || { echo "failed with vLLM ${failed[*]}" >&2; exit 1; }
