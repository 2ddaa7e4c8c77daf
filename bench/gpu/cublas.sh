# For the other scripts: finds cuBLAS, which the simulated model needs and the bundle does not contain.
cublas=$(find -L /usr/local/cuda/lib64 /usr/local/cuda/lib /opt /usr/lib -name libcublas.so.13 2>/dev/null | head -n 1)
[ -n "$cublas" ] && export LD_LIBRARY_PATH=${cublas%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
