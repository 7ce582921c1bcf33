#!/usr/bin/env bash
# Includes go one way: kernels and runtime include nothing of ours but themselves, actors may include both, tools all.
set -euo pipefail

failed=0

# allow FOLDER LAYER…: every include of ours in FOLDER names one of the LAYERs.
allow() {
    local folder=$1 layers=$2 wrong
    wrong=$(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' --include='*.[ch]' --include='*.cu' \
        --include='*.cuh' --include='*.cpp' --include='*.in' "$folder" |
        grep -vE "include[[:space:]]*\"($layers)/" || true)
    [[ -z $wrong ]] && return
    echo "$folder/ may include only $layers, as \"folder/file.h\":"
    echo "$wrong"
    failed=1
}

allow kernels 'kernels'
allow runtime 'runtime'
allow actors 'runtime|kernels|actors'
allow tools 'runtime|kernels|actors|tools'

# What the actors share knows nothing of actors or of the runtime.
if grep -rnE 'include[[:space:]]*("runtime/|<verl\.h>)' actors/lm actors/text actors/rl actors/data | grep -v 'runtime/base/'; then
    echo "actors/lm, text, rl and data may not include the runtime"
    failed=1
fi

# Every include of ours is there.
while IFS= read -r header; do
    [[ -e $header ]] || { echo "$header is included and is not there"; failed=1; }
done < <(grep -rhoE 'include[[:space:]]*"[^"]+"' --include='*.[ch]' kernels runtime actors tools | grep -oE '"[^"]+"' | tr -d '"' | sort -u)

exit "$failed"
