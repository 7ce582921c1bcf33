#!/usr/bin/env bash
# `make install` lays down a tree that runs by itself, may be moved, and against which an actor outside the tree is built.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$VERL_BUILD" --prefix "$work/first" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/moved"

# The actor that README.md shows, as it stands there.
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md > "$work/length_reward.c"
grep -q VERL_KIND "$work/length_reward.c" || { echo "README.md shows no actor in C"; exit 1; }
pc=$(dirname "$(find "$work/moved" -name verl.pc)")
flags=$(PKG_CONFIG_PATH=$pc pkg-config --cflags verl)
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -Wall -Wextra -pedantic -Werror -O2 -fPIC -shared $flags -o "$work/length_reward.so" "$work/length_reward.c"

cat > "$work/outside.toml" <<TOML
[run]
name = "outside"
steps = 3

[stage.source]
kind = "loader"
files = ["rows.jsonl"]
rows = 2

[stage.score]
kind = "$work/length_reward.so"
target = 4
depends_on = ["source"]

[stage.record]
kind = "recorder"
file = "scores.jsonl"
columns = ["score"]
depends_on = ["score"]
TOML
for ids in '[1, 2, 3, 4]' '[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]'; do
    echo "{\"prompt\": \"p\", \"response_ids\": $ids}"
done > "$work/rows.jsonl"

"$work/moved/bin/verl-run" --quiet --run-dir "$work/run" "$work/outside.toml" > "$work/said" 2>&1 ||
    { cat "$work/said"; exit 1; }
[[ $(wc -l < "$work/run/scores.jsonl") == 6 ]] || { echo "not 6 scores:"; cat "$work/run/scores.jsonl"; exit 1; }
# A response of the target length scores one half, one of three times that a quarter.
[[ $(grep -cE '"score": ?0\.5\b' "$work/run/scores.jsonl") == 3 && $(grep -cE '"score": ?0\.25\b' "$work/run/scores.jsonl") == 3 ]] ||
    { echo "wrong scores:"; cat "$work/run/scores.jsonl"; exit 1; }
