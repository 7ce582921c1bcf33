#!/bin/sh
# gpu-check.sh [FOLDER]: builds with CUDA and runs the tests that need a GPU (label gpu). Skips, and says so, without one.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build-cuda}

skip() {
    echo "gpu-check: skipped: $*"
    exit 0
}

command -v nvidia-smi > /dev/null || skip "there is no NVIDIA driver here (no nvidia-smi)"
nvidia-smi -L 2> /dev/null | grep -q '^GPU' || skip "nvidia-smi sees no GPU"
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2> /dev/null || true)
[ -n "$nvcc" ] || skip "there is a GPU, but no CUDA compiler (nvcc) to build for it"

nvidia-smi -L
if [ ! -f "$folder/build.ninja" ]; then
    cmake --preset default -B "$folder" -DVERL_CUDA=ON -DCMAKE_CUDA_COMPILER="$nvcc" > /dev/null
fi
sh tools/build.sh "$folder" default all tests
count=$(ctest --test-dir "$folder" -L gpu -N | sed -n 's/^Total Tests: //p')
[ "${count:-0}" -gt 0 ] || skip "this version has no test that needs a GPU"
sh tools/test.sh "$folder" -L gpu
