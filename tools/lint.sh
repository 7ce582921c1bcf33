#!/bin/sh
# lint.sh FOLDER [FILE…]: clang-tidy over the C sources of a build, shell syntax, and names that the house has banned.
set -eu
folder=$1
shift
failed=0

command -v clang-tidy > /dev/null || { echo "lint: needs clang-tidy (apt-get install clang-tidy)" >&2; exit 1; }

files=${*:-$(git ls-files 'kernels/*.c' 'runtime/*.c' 'actors/*.c' 'tools/*.c')}

# Unbounded or unchecked: each has a safe sister in the C library.
# shellcheck disable=SC2086
if grep -nE '\b(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atof|strtok)\(' $files; then
    echo "lint: the calls above are banned: use snprintf, strtol, strtod, strtok_r" >&2
    failed=1
fi

for script in $(git ls-files '*.sh' '.ci/run'); do
    case $(head -n 1 "$script") in
        *bash*) bash -n "$script" || failed=1 ;;
        *) sh -n "$script" || failed=1 ;;
    esac
done

# shellcheck disable=SC2086
printf '%s\n' $files | xargs -P "$(nproc)" -n 4 clang-tidy -p "$folder" --quiet 2> /dev/null || failed=1
[ "$failed" -eq 0 ] && echo "lint: clean"
exit "$failed"
