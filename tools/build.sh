#!/bin/sh
# build.sh FOLDER PRESET [TARGET…]: configures once, then builds. One moving line on a terminal, one line elsewhere.
set -eu
folder=$1
preset=$2
shift 2

log="$folder/configure.log"
if [ ! -f "$folder/build.ninja" ]; then
    mkdir -p "$folder"
    if ! cmake --preset "$preset" -B "$folder" > "$log" 2>&1; then
        cat "$log" >&2
        echo "build: cmake could not configure $folder (a missing package? run: make setup)" >&2
        exit 1
    fi
fi

export NINJA_STATUS='[%f of %t] '
if [ -t 1 ]; then
    exec ninja -C "$folder" "$@"
fi
echo "building in $folder"
exec ninja --quiet -C "$folder" "$@"
