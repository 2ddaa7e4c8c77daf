#!/usr/bin/env bash
# no_wheel.sh SOURCE: `./dev wheel` with a Python for which there is no wheel ends before it builds, and says which it needs.
# Exit status 77 where /usr/bin/python3 would do.
set -euo pipefail
! /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { echo "/usr/bin/python3 is recent enough"; exit 77; }
version=$(/usr/bin/python3 -c 'import platform; print(platform.python_version())')
said=$(PYTHON=/usr/bin/python3 timeout 30 "$1/dev" wheel 2>&1) && { echo "a wheel was built: $said"; exit 1; }
grep -qF "/usr/bin/python3 is $version" <<<"$said" && grep -q "PYTHON=/path/to/python3.12 names one" <<<"$said" || { echo "$said"; exit 1; }
! grep -q "== building" <<<"$said" || { echo "it began to build: $said"; exit 1; }
echo "$said"
