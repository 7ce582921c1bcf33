#!/bin/sh
# tap.sh [PAIRS]: what it costs that messages can be followed while nobody does: processor time of a whole run of small
# batches, in turns with a build without the tap. Prints both medians and their ratio; 1.01 is wanted at most.
#
# Builds the second one into build-notap. Run it from the root, where build/ is built, on a machine that does nothing else.
set -eu
pairs=${1:-31}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/t.toml" << 'END'
[run]
name = "tap"
steps = 4000
[stage.src]
kind = "synthetic"
[stage.mid]
kind = "synthetic"
depends_on = ["src"]
as = { payload = "more" }
[stage.end]
kind = "synthetic"
depends_on = ["mid"]
as = { payload = "most" }
END
cmake -S . -B build-notap -G Ninja -DVERL_TAP=OFF -DVERL_TESTS=OFF > "$folder/cmake.log"
ninja -C build-notap verl-run verl-actor > "$folder/ninja.log"

# Seconds of processor time of verl-run and all its actors.
spent() {
    rm -rf "$folder/run"
    python3 - "$1/bin/verl-run" "$folder" << 'END'
import resource, subprocess, sys
subprocess.run([sys.argv[1], "--quiet", "--run-dir", sys.argv[2] + "/run", sys.argv[2] + "/t.toml"], check=True,
               stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
END
}

i=0
while [ "$i" -lt "$pairs" ]; do
    spent build >> "$folder/with"
    spent build-notap >> "$folder/without"
    i=$((i + 1))
done
python3 - "$folder/with" "$folder/without" << 'END'
import statistics, sys
with_tap, without = ([float(x) for x in open(name)] for name in sys.argv[1:])
ratios = [a / b for a, b in zip(with_tap, without)]
print(f"with the tap {statistics.median(with_tap):.3f} s, without {statistics.median(without):.3f} s of processor time; "
      f"median ratio of {len(ratios)} pairs {statistics.median(ratios):.4f}")
END
