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
# The licences of the libraries that auditwheel takes along.
mkdir "$place/prefix/licenses"
find "$place/prefix" \( -path '*/bin/*' -o -name '*.so' \) -exec ldd {} + | awk '$3 ~ /^\// { print $3 }' | xargs readlink -f |
    sort -u | sed 's|.*/|*/|' | xargs dpkg-query --search | cut -d: -f1 | sort -u | grep -vE '^(lib(32|c6|gcc|stdc)|zlib)' |
    while read -r library; do cp "/usr/share/doc/$library/copyright" "$place/prefix/licenses/$library"; done
pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w "$place/raw" \
    -C build-dir="$place/build" -C cmake.define.CMAKE_PREFIX_PATH="$place/prefix" "$package"
# The newest glibc that anything in it asks for gives the tag; libraries that other machines may lack are taken along.
rm -f "$wheels"/croupier-*.whl
auditwheel repair --strip -w "$wheels" "$place"/raw/*.whl >"$place/auditwheel.log" 2>&1 || { cat "$place/auditwheel.log" >&2; exit 1; }
# What users install is tried once, without what it was built in.
"$python" -m venv "$place/fresh"
"$place/fresh/bin/pip" install -q --disable-pip-version-check --no-index --no-deps "$wheels"/croupier-*.whl
"$place/fresh/bin/python" -c 'import array, croupier; assert croupier.decide(array.array("f", [0, 1]), params=croupier.Params(temperature=0)).token == 1'
"$place/fresh/bin/croupier" decide <<<'{"logits": [0, 1]}' >/dev/null && "$place/fresh/bin/croupierd" --version >/dev/null
rm -rf "$place"
ls -sh "$wheels"/*.whl
