#!/bin/sh
# fuzz.sh FOLDER [SECONDS]: builds the fuzzers (tests/fuzz/fuzz_*.c) with clang and runs each for a while.
# The seeds of fuzz_NAME are in tests/fuzz/corpus/NAME for fuzz_NAME; what it finds stays in FOLDER/corpus/fuzz_NAME.
set -eu
folder=$1
seconds=${2:-60}

command -v clang > /dev/null || { echo "fuzz: needs clang (apt-get install clang libomp-dev)" >&2; exit 1; }
sh tools/build.sh "$folder" fuzz fuzzers
count=0
for fuzzer in "$folder"/fuzz/fuzz_*; do
    [ -x "$fuzzer" ] || continue
    name=$(basename "$fuzzer")
    corpus="$folder/corpus/$name"
    mkdir -p "$corpus"
    seeds="tests/fuzz/corpus/${name#fuzz_}"
    [ -d "$seeds" ] || seeds=""
    echo "fuzz: $name for $seconds s"
    # shellcheck disable=SC2086
    "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -verbosity=0 -artifact_prefix="$folder/found-$name-" "$corpus" $seeds
    count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "fuzz: there is no fuzzer in tests/fuzz" >&2; exit 1; }
echo "fuzz: $count fuzzers found nothing"
