#!/usr/bin/env bash
# environment.sh BUILD [PYTHON]: a virtual environment in BUILD/python (or $CROUPIER_PLACE) with what the package needs to be built and tested, and a prefix
# beside it that holds the build's libraries and programs, from which the package takes them.
set -euo pipefail
build=$1 python=${2:-python3}
here=$(cd "$(dirname "$0")" && pwd)
place=${CROUPIER_PLACE:-$build/python}
mkdir -p "$place"

if ! "$place/venv/bin/python" -c '' 2>/dev/null; then
    "$python" -m venv --clear "$place/venv" || { echo "$python makes no virtual environment; Debian's package for it is python3-venv" >&2; exit 1; }
fi
"$place/venv/bin/python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt"

for component in library development; do
    cmake --install "$build" --prefix "$place/prefix" --component "$component" --strip >/dev/null
done
# Not by their component, which also writes to /etc.
mkdir -p "$place/prefix/bin"
for program in croupier croupierd; do
    install -s "$build/bin/$program" "$place/prefix/bin/$program"
done
