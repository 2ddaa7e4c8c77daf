#!/usr/bin/env bash
# Measures the derived states of 4,096 sequences with histories of 1,000 tokens, penalties and DRY.
#   bench/derived_states.sh BIN_FOLDER
set -euo pipefail
"$1/test_daemon" "[.many]"
