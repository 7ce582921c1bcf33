#!/bin/sh
# check.sh [--large] [MODEL…]: runs the models of this folder through SPIN, one line of output for each run.
#
# A model names its runs in its head: `// holds: FLAGS` must finish without an error, `// fails: FLAGS` must find one, so
# that the model is known to be able to, `// large: FLAGS` must hold too, within minutes, and runs with --large only.
# Exit: 0 all as they have to be, 1 some not, 77 spin or gcc is missing. LIMIT=SECONDS bounds one run (60, large 900).
set -u
here=$(cd "$(dirname "$0")" && pwd)
kinds="holds fails"
if [ "${1:-}" = --large ]; then
    kinds="holds large fails"
    LIMIT=${LIMIT:-900}
    shift
fi
for tool in spin gcc; do
    if ! command -v "$tool" > /dev/null; then
        echo "check: $tool is missing: make setup installs it"
        exit 77
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
wrong=0

# One run: MODEL KIND FLAGS. A run that had to stop early proves nothing.
run() {
    speed=-O1
    [ "$2" = fails ] && speed=-O0
    cp "$here/$1.pml" "$work/model.pml"
    # shellcheck disable=SC2086
    if ! (cd "$work" && spin $3 -a model.pml > spin.log 2>&1 &&
          gcc -w $speed -DSAFETY -DMEMLIM=6000 -DVECTORSZ=2048 -o pan pan.c > spin.log 2>&1); then
        sed -n 1,3p "$work/spin.log"
        said="does not translate"
    else
        (cd "$work" && timeout "${LIMIT:-60}" ./pan -m100000 > pan.log 2>&1)
        said=$(sed -n -e 's/^pan:[0-9]*: \([a-z ]*[a-z]\).*/\1/p' -e 's/^pan: \(.*\)/\1/p' "$work/pan.log" | sed -n 1p)
        if grep -q 'errors: 0' "$work/pan.log" && ! grep -q -e 'search depth too' -e 'out of memory' "$work/pan.log"
        then
            said=holds
        elif ! grep -q 'errors: 1' "$work/pan.log"; then
            said="did not finish $said"
        fi
    fi
    states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/, \1 states/p' "$work/pan.log" 2> /dev/null)
    verdict=ok
    case "$2:$said" in
        fails:holds | fails:did* | *:does*) verdict=WRONG ;;
        fails:* | *:holds) ;;
        *) verdict=WRONG ;;
    esac
    [ $verdict = ok ] || wrong=1
    echo "$verdict: $1 $3: $said$states"
    rm -f "$work"/*
}

[ $# -gt 0 ] || set -- channel revisions rollback weights shared
for model in "$@"; do
    if [ ! -f "$here/$model.pml" ]; then
        echo "check: there is no model $model"
        exit 1
    fi
    for kind in $kinds; do
        sed -n "s,^// $kind: ,,p" "$here/$model.pml" > "$work.runs"
        while read -r flags; do
            run "$model" "$kind" "$flags"
        done < "$work.runs"
        rm -f "$work.runs"
    done
done
exit $wrong
