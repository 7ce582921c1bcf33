#!/usr/bin/env bash
# No public name is defined twice in our libraries, where the order of linking would choose one of them; and each begins
# with `verl_`, so that none meets a name of somebody else's.
set -euo pipefail

mapfile -t libraries < <(find "$VERL_BUILD" -name 'libverl_*.a' -not -path "$VERL_BUILD/tests/*" | sort)
if [ "${#libraries[@]}" -lt 3 ]; then
    echo "symbols: there are only ${#libraries[@]} libraries in $VERL_BUILD"
    exit 1
fi
# Functions and data; names that the compiler makes begin with an underscore or a full stop.
names=$(nm --defined-only --extern-only --format=posix "${libraries[@]}" 2> /dev/null |
    awk '$2 ~ /^[TDBRC]$/ && $1 !~ /^[_.]/ { print $1 }' | sort)
if [ "$(wc -l <<< "$names")" -lt 100 ]; then
    echo "symbols: nm found next to nothing in ${libraries[*]}"
    exit 1
fi
failed=0
twice=$(uniq -d <<< "$names")
if [ -n "$twice" ]; then
    echo "symbols: defined more than once:" $twice
    failed=1
fi
foreign=$(grep -v '^verl_' <<< "$names" || true)
if [ -n "$foreign" ]; then
    echo "symbols: public without verl_:" $foreign
    failed=1
fi
exit $failed
