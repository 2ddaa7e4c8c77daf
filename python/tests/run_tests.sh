#!/usr/bin/env bash
# run_tests.sh BUILD: installs the package against this build and runs its tests.
set -euo pipefail
package=$(cd "$(dirname "$0")/.." && pwd)
"$package/install.sh" "$1"
place=$(cd "$1/python" && pwd)
CROUPIER_TEST_PROGRAMS=$(cd "$1/bin" && pwd)
export CROUPIER_TEST_PROGRAMS
cd "$package"
exec "$place/venv/bin/python" -m pytest -o faulthandler_timeout=120 -o cache_dir="$place/pytest" tests
