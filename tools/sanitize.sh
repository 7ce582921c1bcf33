#!/bin/sh
# sanitize.sh FOLDER PRESET [CTEST OPTIONS…]: builds with the sanitizers of a preset, runs the tests, prints what was found.
#
# Each process writes what is found in it to FOLDER/reports, so that a finding counts also where the test that started the
# process passes.
set -eu
folder=$1
preset=$2
shift 2

sh tools/build.sh "$folder" "$preset" all tests
rm -rf "$folder/reports"
mkdir "$folder/reports"
failed=0
sh tools/test.sh "$folder" "$@" || failed=1
count=0
for report in "$folder"/reports/*; do
    [ -f "$report" ] || continue
    cat "$report"
    count=$((count + 1))
done
[ "$count" -eq 0 ] || echo "sanitize: findings in $count processes; they are in $folder/reports" >&2
[ "$count" -eq 0 ] && [ "$failed" -eq 0 ]
