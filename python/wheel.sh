#!/usr/bin/env bash
# wheel.sh BUILD WHEELS: one wheel for Python 3.12 and later, with the libraries, croupier and croupierd of the build and what those need.
set -euo pipefail
build=$1 wheels=$2
package=$(cd "$(dirname "$0")" && pwd)
python=$("$package/find_python.sh")
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
