#!/usr/bin/env bash
# find_python.sh: prints a Python that a wheel can be built with, which is 3.12 or later with its headers; or says what it found and
# what to do. $PYTHON names one; else those of PATH are asked, and those that pyenv and uv have installed.
set -euo pipefail
shopt -s nullglob

# A line: "=" and its path, or why it is none.
described() {
    "$1" - 2>/dev/null <<'END'
import os, sys, sysconfig

version = "%d.%d.%d" % sys.version_info[:3]
headers = sysconfig.get_path("include")
if sys.version_info < (3, 12):
    print(f"{sys.executable} is {version}")
elif sysconfig.get_config_var("Py_GIL_DISABLED"):
    print(f"{sys.executable} is {version} without a GIL, which has no stable ABI")
elif not os.path.exists(os.path.join(headers, "Python.h")):
    print(f"{sys.executable} is {version} and has no headers (Debian: python{version.rpartition('.')[0]}-dev)")
else:
    print("=" + sys.executable)
END
}

candidates=(${PYTHON:+"$PYTHON"})
[ ${#candidates[@]} -gt 0 ] || candidates=(python3.14 python3.13 python3.12 python3
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python3
    "${XDG_DATA_HOME:-$HOME/.local/share}"/uv/python/cpython-3.1[2-9]*/bin/python3)
refused=
for python in "${candidates[@]}"; do
    found=$(described "$python") || continue
    [[ $found != =* ]] || { echo "${found#=}"; exit; }
    refused+="${refused:+; }$found"
done
cat >&2 <<END
A wheel is built with Python 3.12 or later, whose stable ABI it uses; found: ${refused:-none (${candidates[*]})}.
PYTHON=/path/to/python3.12 names one. Debian 12 has none; this installs one for this user, which is found then:
    python3 -m venv build/uv && build/uv/bin/pip install uv && build/uv/bin/uv python install 3.12
END
exit 1
