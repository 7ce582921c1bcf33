#!/bin/sh
# soak.sh [SECONDS] [SEED]: a learning run to which random things happen, for an hour unless told otherwise.
#
# The choices follow from the seed, which is printed; their moments depend on the machine. See tests/tools/test_soak.c.
# BUILD names the build folder.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
seconds=${1:-3600}
seed=${2:-$(date +%s)}
[ -f "$build/build.ninja" ] || cmake -G Ninja -S . -B "$build" > /dev/null
cmake --build "$build" --target tools.test_soak verl-run verl-actor verl-inject verl-spy
echo "soak: $seconds s, seed $seed"
VERL_SOAK_SECONDS=$seconds VERL_SOAK_SEED=$seed exec "$build/tests/tools.test_soak" --verbose
