"""What ends a handler before its end, and how an exception is said to people."""

from __future__ import annotations

import os
import traceback

from ._arena import ArenaError
from ._wire import Malformed


class Failure(Exception):
    """A handler cannot go on; the text says why in one sentence."""


class Skip(Exception):
    """The batch is to be done without a result, here and at every reader."""


class Stopped(BaseException):
    """The run is being stopped while a handler works."""


def plain(text: object, most: int) -> str:
    """A text as the director takes it: so many bytes of UTF-8 at most, cut between characters, no zero byte."""
    return str(text).replace("\0", " ").encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def clip(text: object, most: int = 1000) -> str:
    """The same, as one line."""
    return plain(" ".join(str(text).replace("\0", " ").split()), most)


def explain(error: BaseException) -> str:
    """One sentence of an exception, with where it was raised."""
    if isinstance(error, (Failure, Malformed, ArenaError)):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    own = os.path.dirname(os.path.abspath(__file__))
    outer = [frame for frame in frames if not os.path.abspath(frame.filename).startswith(own)]
    where = f" ({os.path.basename(outer[-1].filename)}:{outer[-1].lineno})" if outer else ""
    return f"{type(error).__name__}: {error}{where}"
