"""A stage that works with published weights: it says which version each batch was given, and what is in it."""

import numpy
import verl


@verl.stage(needs=["response"], gives=["version:i64[n]", "sum:i64[n]", "xor:i64[n]"], weights=True)
def watch(batch, stage):
    """The version, and of all its numbers, as they lie in memory, the sum and the exclusive or."""
    total = xor = 0
    if stage.weights is not None:
        params = stage.weights["params"]
        if params.flags.writeable or params.flags.owndata or params.dtype != numpy.float32:
            stage.fail("the weights are no view of the numbers that were published")
        bits = params.reshape(-1).view(numpy.uint32)
        total, xor = int(bits.sum(dtype=numpy.uint64)), int(numpy.bitwise_xor.reduce(bits))
    return {name: [value] * batch.rows for name, value in (("version", stage.version), ("sum", total), ("xor", xor))}


verl.main()
