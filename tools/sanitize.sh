#!/bin/sh
# sanitize.sh FOLDER PRESET: builds with the preset's sanitizers and runs all tests; prints what the sanitizers found.
#
# Each process writes what is found in it to FOLDER/reports, so that a finding counts also where the test that started the
# process passes.
set -eu
folder=$1
preset=$2

sh tools/build.sh "$folder" "$preset" all tests
rm -rf "$folder/reports"
mkdir "$folder/reports"
failed=0
sh tools/test.sh "$folder" || failed=1
count=0
for report in "$folder"/reports/*; do
    [ -f "$report" ] || continue
    cat "$report"
    count=$((count + 1))
done
[ "$count" -eq 0 ] || echo "sanitize: findings in $count processes, in $folder/reports" >&2
[ "$count" -eq 0 ] && [ "$failed" -eq 0 ]
