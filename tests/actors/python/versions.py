"""versions.py RUN STALENESS STEPS: were the batches of programs/weights.py worked with the versions that their numbers
ask for, and with what the writer had then? The checkpoints of the run, one a step, say what that was."""

import json
import struct
import sys

import numpy


def digest(path):
    """The sum and the exclusive or of all numbers of a safetensors file."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        bits = numpy.frombuffer(file.read(), numpy.uint32)
    tensors = [entry for name, entry in header.items() if name != "__metadata__"]
    assert tensors and all(entry["dtype"] == "F32" for entry in tensors)
    assert sum(end - begin for begin, end in (entry["data_offsets"] for entry in tensors)) == 4 * len(bits)
    return int(bits.sum(dtype=numpy.uint64)), int(numpy.bitwise_xor.reduce(bits))


def main(run, staleness, steps):
    with open(f"{run}/kept.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert [line["batch"] for line in lines] == sorted(line["batch"] for line in lines)
    assert {line["batch"] for line in lines} == set(range(steps)), "a batch is missing"
    seen = {}
    for line in lines:
        version = max(line["batch"] - staleness, 0)
        assert line["version"] == version, f"batch {line['batch']} was worked with version {line['version']}"
        if version not in seen:
            path = f"{run}/checkpoints/step-{version}/policy/model/model.safetensors"
            seen[version] = digest(path) if version else (0, 0)
        assert (line["sum"], line["xor"]) == seen[version], f"version {version} is not what the writer had"
    assert len(set(seen.values())) == steps - staleness, "the weights did not change"


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
