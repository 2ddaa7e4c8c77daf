#!/usr/bin/env bash
# install.sh BUILD: installs the package against this build into the environment in BUILD/python, as pip does it.
set -euo pipefail
build=$1
package=$(cd "$(dirname "$0")" && pwd)
"$package/environment.sh" "$build"
place=$(cd "$build/python" && pwd)
# The same build folder each time: what has not changed is not compiled again.
"$place/venv/bin/python" -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall \
    -C build-dir="$place/build" -C cmake.define.CMAKE_PREFIX_PATH="$place/prefix" -C cmake.define.CROUPIER_WERROR=ON "$package"
