#!/usr/bin/env bash
# wheel.sh BUILD WHEELS: one wheel for Python 3.12 and later, with the libraries and programs of the build and what those need. An older
# Python, where there is no other, gets a wheel of its own. PYTHON names another interpreter than the first that is found.
set -euo pipefail
build=$1 wheels=$2
package=$(cd "$(dirname "$0")" && pwd)
python=
for python in ${PYTHON:-python3.14 python3.13 python3.12 python3}; do
    "$python" -c '' 2>/dev/null && break
done
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' ||
    echo "wheel.sh: no Python 3.12 or later was found, so this wheel is for $("$python" --version) alone, and vLLM 0.26 cannot load it; PYTHON=/path/to/python3.12 names one" >&2
mkdir -p "$wheels"
place=$(cd "$wheels" && pwd)/environment
rm -rf "$place"
mkdir "$place"
CROUPIER_PLACE=$place "$package/environment.sh" "$build" "$python"
PATH=$place/venv/bin:$PATH
pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w "$place/raw" \
    -C build-dir="$place/build" -C cmake.define.CMAKE_PREFIX_PATH="$place/prefix" "$package"
# The newest glibc that anything in it asks for gives the tag; libraries that other machines may lack are taken along.
auditwheel repair --strip -w "$wheels" "$place"/raw/*.whl >"$place/auditwheel.log" 2>&1 || { cat "$place/auditwheel.log" >&2; exit 1; }
rm -rf "$place"
ls -sh "$wheels"/*.whl
