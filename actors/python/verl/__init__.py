"""Write an actor of a verl run in Python.

    import verl

    @verl.stage(needs=["response", "answer"], gives=["score"])
    def score(batch):
        return {"score": [float(a in r) for r, a in zip(batch["response"], batch["answer"])]}

    verl.main()

A topology names it as `kind = "command"`, `command = ["python3", "my_reward.py"]`. README.md has the whole of it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, TypeVar

from ._program import Handler, Option, Options, Program, StageKind, describe, make_stage, option
from ._version import VERSION as __version__

if TYPE_CHECKING:
    from ._batch import Batch, Ragged, Text, Weights
    from ._errors import Failure, Skip
    from ._stage import Rows, Stage

_F = TypeVar("_F", bound=Handler)
_stages: Dict[str, StageKind] = {}
_hooks: Dict[str, Handler] = {}

# What needs numpy is loaded when it is first asked for, so that a program describes itself at once.
_LATER = {"Batch": "_batch", "Ragged": "_batch", "Text": "_batch", "Weights": "_batch", "Failure": "_errors",
          "Rows": "_stage", "Skip": "_errors", "Stage": "_stage"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module("." + _LATER[name], __name__), name)
    raise AttributeError(f"module 'verl' has no '{name}'")


def stage(needs: Sequence[str] = (), gives: Sequence[str] = (), options: Optional[Mapping[str, Any]] = None,
          name: Optional[str] = None, source: bool = False, by_row: bool = False,
          maps: bool = False, weights: bool = False) -> Callable[[_F], _F]:
    """Declares a handler: the columns that it needs ("name", "name?") and gives ("score", "ids:i32[n,*]", "note:text"),
    and its options with their defaults. It is called with the batch, or with the batch and the stage, and returns a
    dict of columns.

    source: it depends on nothing and makes rows. by_row: it works row by row, so it may run on parts of a batch.
    maps: it makes new rows and returns verl.Rows(columns, row_map).
    weights: it works with published weights, which the topology names (weights = "update", staleness = 1); the version
    of a batch is stage.weights."""
    def declare(handler: _F) -> _F:
        kind = make_stage(handler, name, needs, gives, dict(options or {}), source, by_row, maps, weights)
        if kind.name in _stages:
            raise ValueError(f"two stages are called '{kind.name}'")
        _stages[kind.name] = kind
        return handler
    return declare


def _hook(name: str, function: _F) -> _F:
    if name in _hooks:
        raise ValueError(f"two functions are marked verl.{name}")
    _hooks[name] = function
    return function


def prepare(function: _F) -> _F:
    """Called once before the first batch, beside the work of others: load what is big here. It may take the options of
    the program's first stage."""
    return _hook("prepare", function)


def snapshot(function: _F) -> _F:
    """Called with a directory: write the state of this actor there, whole. A program with it keeps state."""
    return _hook("snapshot", function)


def restore(function: _F) -> _F:
    """Called with a directory that snapshot wrote: take the state from there."""
    return _hook("restore", function)


def finish(function: _F) -> _F:
    """Called when the run is over."""
    return _hook("finish", function)


def _die_with_parent() -> None:
    try:
        ctypes.CDLL(None, use_errno=True).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    except (AttributeError, OSError):
        pass  # no Linux: the process ends when its node closes descriptor 3
    if os.getppid() != int(os.environ["VERL_PARENT"]):
        sys.exit(1)


def _check_packages() -> None:
    """What an actor will need is there: known when the program is asked what it declares, without loading it."""
    for name in ("zmq", "msgpack", "numpy"):
        if importlib.util.find_spec(name) is None:
            sys.exit(f"the Python package verl needs {name}: pip install pyzmq msgpack numpy, or Debian's "
                     f"python3-zmq, python3-msgpack and python3-numpy, for {sys.executable}")


def main() -> None:
    """Runs the stages that were declared: the last line of a program. Returns when the run is over."""
    program = Program(dict(_stages), dict(_hooks))
    if os.environ.get("VERL_DESCRIBE"):
        _check_packages()
        print(json.dumps(describe(program)), flush=True)
        return
    missing: List[str] = [key for key in ("VERL_ACTOR", "VERL_INCARNATION", "VERL_REPLICA", "VERL_RUN_ID",
                                          "VERL_RUN_DIR", "VERL_PARENT") if key not in os.environ]
    if missing:
        sys.exit("this program is an actor and is started by verl-run: name it in a topology, "
                 f'kind = "command", command = ["python3", "{os.path.basename(sys.argv[0])}"]')
    _die_with_parent()
    _check_packages()
    from ._host import Host
    environment = os.environ
    Host(program, environment["VERL_ACTOR"], int(environment["VERL_INCARNATION"]), int(environment["VERL_REPLICA"]),
         environment["VERL_RUN_ID"], environment["VERL_RUN_DIR"], 3).run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of libraries do not keep a run waiting


__all__ = ["Batch", "Failure", "Option", "Options", "Ragged", "Rows", "Skip", "Stage", "Text", "Weights", "__version__",
           "finish", "main", "option", "prepare", "restore", "snapshot", "stage"]
