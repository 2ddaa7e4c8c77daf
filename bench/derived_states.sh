#!/usr/bin/env bash
# What samplers keep of 4,096 live sequences with histories of a thousand tokens, penalties and DRY.
#   bench/derived_states.sh BIN_FOLDER
set -euo pipefail
"$1/test_daemon" "[.many]"
