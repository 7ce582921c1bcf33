#!/bin/sh
# test.sh FOLDER [CTEST OPTIONS…]: runs the tests of a build and ends with ctest's totals.
#
# Two at a time: the tests are small programs, and those about time want a core that is not fought over.
set -eu
folder=$1
shift
progress=""
[ ! -t 1 ] || progress="--progress"
# shellcheck disable=SC2086
exec ctest --test-dir "$folder" -j "${VERL_TEST_JOBS:-2}" $progress --output-on-failure --no-tests=error "$@"
