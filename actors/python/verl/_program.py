"""What a program declares: its stages with their columns and options, and the functions around them.

Nothing here loads more than Python itself, so that a program describes itself at once.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

PROTOCOL = 1  # that this package speaks

Handler = Callable[..., Any]
Value = Union[bool, int, float, str, List[Any], Dict[str, Any]]

_TYPES = {bool: "bool", int: "int", float: "real", str: "string", list: "list", dict: "table"}


class Option(NamedTuple):
    """An option of a stage: its default says its type."""

    default: Any
    about: str = ""
    min: Optional[float] = None
    max: Optional[float] = None
    choices: Sequence[Any] = ()


def option(default: Value, about: str = "", min: Optional[float] = None, max: Optional[float] = None,
           choices: Sequence[Value] = ()) -> Option:
    """Declares an option with a default (whose type is the option's), a sentence, and what it may be."""
    return Option(default, about, min, max, tuple(choices))


class Options(Dict[str, Any]):
    """The values of a stage's options, also as attributes: stage.options.scale."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this stage has no option '{name}'") from None


class StageKind(NamedTuple):
    name: str
    handler: Handler
    arguments: int  # that the handler takes: the batch, and the stage
    needs: List[str]
    gives: List[str]
    options: Dict[str, Option]
    source: bool
    by_row: bool
    maps: bool
    weights: bool  # it works with a published version
    about: str


class Program(NamedTuple):
    stages: Dict[str, StageKind]
    hooks: Dict[str, Handler]  # prepare, snapshot, restore, finish

    @property
    def keeps_state(self) -> bool:
        return "snapshot" in self.hooks

    def find(self, stage: str, function: str) -> Optional[StageKind]:
        """The stage that a topology asks for by `function`, or by its own name; else the only one that there is."""
        found = self.stages.get(function or stage)
        if found is None and not function and len(self.stages) == 1:
            return next(iter(self.stages.values()))
        return found


def check_option(name: str, declared: Option, value: Any) -> Any:
    """The value as the option's type, or ValueError with what would be right."""
    kind = type(declared.default)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise ValueError(f"option '{name}' is {value!r}: it must be a {_TYPES[kind]}")
    if declared.min is not None and not value >= declared.min or declared.max is not None and not value <= declared.max:
        raise ValueError(f"option '{name}' is {value!r}: it must be from {declared.min} to {declared.max}")
    if declared.choices and value not in declared.choices:
        raise ValueError(f"option '{name}' is {value!r}: it must be one of "
                         + ", ".join(repr(choice) for choice in declared.choices))
    return value


def fill_options(kind: StageKind, given: Dict[str, Any]) -> Options:
    """The options of a stage: what the topology says, and the defaults."""
    unknown = sorted(set(given) - set(kind.options))
    if unknown:
        raise ValueError(f"stage '{kind.name}' has no option '{unknown[0]}': it has "
                         + (", ".join(kind.options) or "none"))
    return Options({name: check_option(name, declared, given[name]) if name in given else declared.default
                    for name, declared in kind.options.items()})


def _positional(function: Handler) -> List[inspect.Parameter]:
    """The arguments that a call may give by their place. Of whatever can be called: a function, a method, a partial."""
    return [p for p in inspect.signature(function).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def takes_argument(function: Handler) -> bool:
    """May it be given one argument? Where that cannot be known it is given none."""
    try:
        return bool(_positional(function))
    except (TypeError, ValueError):
        return False


def make_stage(handler: Handler, name: Optional[str], needs: Sequence[str], gives: Sequence[str],
               options: Dict[str, Any], source: bool, by_row: bool, maps: bool, weights: bool = False) -> StageKind:
    called = name or getattr(handler, "__name__", "")
    if not called:
        raise TypeError(f"a stage is {handler!r:.100}, which has no name of its own: verl.stage(name=...) would be "
                        "right")
    declared = {key: value if isinstance(value, Option) else Option(value) for key, value in options.items()}
    for key, value in declared.items():
        if type(value.default) not in _TYPES:
            raise TypeError(f"stage '{called}': the default of option '{key}' is {value.default!r}: a bool, int, "
                            "float, str, list or dict would be right")
        check_option(key, value, value.default)
    positional = [p for p in _positional(handler) if p.default is p.empty]
    if not 1 <= len(positional) <= 2:
        raise TypeError(f"stage '{called}': a handler takes the batch, or the batch and the stage")
    about = (inspect.getdoc(handler) or "").split("\n")[0].rstrip(".")
    return StageKind(called, handler, len(positional), list(needs), list(gives), declared, source, by_row, maps,
                     weights, about)


def _option_type(value: Option) -> Dict[str, Any]:
    out: Dict[str, Any] = {"type": _TYPES[type(value.default)], "default": value.default, "about": value.about}
    if value.min is not None:
        out["min"] = value.min
    if value.max is not None:
        out["max"] = value.max
    if value.choices:
        out["choices"] = list(value.choices)
    return out


def describe(program: Program) -> Dict[str, Any]:
    """What verl-run asks for when it checks a topology (VERL_DESCRIBE=1)."""
    return {
        "protocol": PROTOCOL,
        "keeps_state": program.keeps_state,
        "stages": [{"name": kind.name, "about": kind.about, "needs": kind.needs, "gives": kind.gives,
                    "source": kind.source, "by_row": kind.by_row, "maps": kind.maps, "weights": kind.weights,
                    "options": {name: _option_type(value) for name, value in kind.options.items()}}
                   for kind in program.stages.values()],
    }
