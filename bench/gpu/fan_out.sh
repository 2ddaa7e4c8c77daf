#!/usr/bin/env bash
# Measures records from GPU to GPU over NCCL and ZMQ, between processes on a host with two GPUs. Run from the
# repository's root, with build/bundle made by `./dev bundle`.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -x build/bundle/run ] || { echo "cannot find build/bundle: create it with ./dev bundle" >&2; exit 1; }
if ! ldconfig -p | grep -q libnccl.so.2; then
    nccl=$(find -L /usr/local /opt -name libnccl.so.2 2>/dev/null | head -n 1)
    [ -n "$nccl" ] && export LD_LIBRARY_PATH=${nccl%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
CROUPIER_TEST_GPU=required exec build/bundle/run test_fan_out "$@"
