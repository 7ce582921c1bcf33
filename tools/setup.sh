#!/bin/sh
# setup.sh: installs the Debian packages that building and testing need, and says which. Does nothing when all are
# there.
#
# Works on a bare Debian 12 that has git and make. Uses sudo only where the user is not root.
set -eu

# What has to be callable: the command, and the package that brings it.
tools="cc:build-essential c++:build-essential cmake:cmake ninja:ninja-build pkg-config:pkg-config python3:python3
spin:spin"
# What actors in Python import, for Debian's own python3; another one has them from pip.
python="python3-zmq python3-msgpack python3-numpy"
# What is linked: the development packages, as cmake/VerlDependencies.cmake looks for them.
libraries="libzmq3-dev libczmq-dev libmsgpack-dev libjansson-dev libtomlplusplus-dev libpcre2-dev libutf8proc-dev
libdnnl-dev liblua5.4-dev libcriterion-dev"

fail() {
    echo "setup: $*" >&2
    exit 1
}

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]
}

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
    echo "setup: this is not a Debian, so nothing is installed here. The build needs, under its own names:"
    echo "setup:" $tools $libraries $python
    exit 0
fi

missing=""
for tool in $tools; do
    package=${tool#*:}
    case " $missing " in *" $package "*) continue ;; esac
    command -v "${tool%%:*}" > /dev/null || missing="$missing $package"
done
for library in $libraries $python; do
    installed "$library" || missing="$missing $library"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || fail "missing:$missing. Run as root: apt-get install$missing"
    as_root="sudo"
fi

echo "setup: installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# An index that cannot be renewed is no reason to stop: the one that is there may do.
$as_root apt-get update -qq > "$log" 2>&1 || echo "setup: apt-get update failed, going on with the package lists that are there"
# shellcheck disable=SC2086
if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing \
    > "$log" 2>&1 < /dev/null; then
    tail -n 15 "$log" >&2
    fail "apt-get could not install$missing: see the lines above"
fi
echo "setup: done"
