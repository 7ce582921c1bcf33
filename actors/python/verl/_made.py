"""What a handler made of a batch: its columns, large ones in memory that readers share, and how they are packed."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Set
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy

from ._arena import Arena, Block
from ._batch import DTYPES, FORMAT, I32, I64, INLINE, ROWS_MAX, Array, Ragged, Text, data_at, shape
from ._wire import pack


class ColumnType(NamedTuple):
    dtype: str
    ragged: bool
    width: int


def parse_type(text: str) -> ColumnType:
    """'f32[n,*]' → (f32, ragged, 1)."""
    match = re.fullmatch(r"(\w+)(?:\[n((?:,(?:\*|\d+))*)\])?", text.replace(" ", ""))
    if match is None or match.group(1) not in DTYPES:
        raise ValueError(f"'{text}' is no type of a column: f32[n], i32[n,*], u8[n,16] or text would be right")
    if match.group(1) == "text":
        return ColumnType("text", True, 1)
    dimensions = (match.group(2) or "").split(",")[1:]
    width = 1
    for dimension in dimensions:
        width *= 1 if dimension == "*" else int(dimension)
    return ColumnType(match.group(1), "*" in dimensions[:1], width)


def _cast(value: Any, kind: Any, where: str) -> Array:
    """As an array of this type, or ValueError: no value is changed by more than the rounding of a real."""
    made = numpy.asarray(value)
    if made.dtype == kind:
        return made
    if made.size == 0:
        return made.astype(kind)
    takes = "biuf" if kind.kind == "f" else "" if kind == DTYPES["bf16"] else "biu"
    if made.dtype.kind not in takes:
        given = "text" if made.dtype.kind in "US" else made.dtype
        raise ValueError(f"{where} was given {given} where {kind} is declared")
    if kind.kind in "iu":
        limits = numpy.iinfo(kind)
        if int(made.min()) < limits.min or int(made.max()) > limits.max:
            raise ValueError(f"{where} has a value that {kind} cannot hold")
        return made.astype(kind)
    with numpy.errstate(over="ignore"):
        cast = made.astype(kind)
    if made.dtype.kind == "f" and bool((numpy.isinf(cast) & ~numpy.isinf(made)).any()):
        raise ValueError(f"{where} has a value that {kind} cannot hold")
    return cast


def _rows_of(value: Any, name: str, what: str) -> Iterable[Any]:
    """One entry a row; what has no order or is itself an entry is none."""
    if isinstance(value, (str, bytes, bytearray, memoryview)) or not hasattr(value, "__iter__"):
        raise ValueError(f"column '{name}' was given one {what} where it has one a row")
    if isinstance(value, (Mapping, Set)):
        raise ValueError(f"column '{name}' was given a {type(value).__name__}: a list with one {what} a row would be "
                         "right")
    rows: Iterable[Any] = value
    return rows


def _bytes_of(text: Any, where: str) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    if not isinstance(text, (bytes, bytearray, memoryview)):
        raise ValueError(f"{where} was given {type(text).__name__} where text is declared: str or bytes would be right")
    return bytes(text)


def _row_count(value: Any, name: str) -> int:
    try:
        rows = operator.index(value)
    except TypeError:
        rows = -1
    if rows < 0:
        raise ValueError(f"column '{name}' was asked for with {value!r:.100}: a number of rows would be right")
    return rows


class MadeColumn(NamedTuple):
    type: ColumnType
    place: Any  # as it travels
    memory: Any  # its bytes: offsets and data


class Made:
    """What a handler made of a batch or part: the memory of its columns, and how each is packed."""

    def __init__(self, arena: Optional[Arena], rows: int, first: int) -> None:
        self.arena = arena
        self.rows = rows  # -1: a source has not said yet
        self.first = first
        self.map_place: Any = None
        self.map_memory: Any = b""
        self.columns: Dict[str, MadeColumn] = {}
        self.blocks: List[Block] = []
        self.size = 0
        self.ready: Dict[str, Tuple[ColumnType, Optional[Block], Array, Array]] = {}  # by empty

    def _memory(self, size: int) -> Tuple[Any, Any]:
        """A place as it travels (filled later where it is inline), and writable memory."""
        if size <= INLINE or self.arena is None:
            return None, bytearray(size)
        block = self.arena.take(size)
        self.blocks.append(block)
        return [block.slab.number, block.offset, size], block.view

    def _set_rows(self, rows: int, name: str) -> None:
        if self.rows < 0:
            self.rows = rows
        if rows != self.rows:
            raise ValueError(f"column '{name}' has {rows} rows where the batch has {self.rows}")
        if rows > ROWS_MAX:
            raise ValueError(f"a batch has at most {ROWS_MAX} rows")

    def set_map(self, row_map: Any, given_rows: int, given_first: int) -> None:
        """For each new row the given row that it came from, counted from 0 in what was given."""
        made = _cast(row_map, I64, "the row map")
        if made.ndim != 1 or (made.size and (int(made.min()) < 0 or int(made.max()) >= given_rows)):
            raise ValueError(f"the row map names a row that was not given: {given_rows} were, counted from 0")
        self.rows = len(made)
        place, memory = self._memory(4 * len(made))
        if len(made):
            numpy.frombuffer(memory, I32)[:] = made + given_first
        self.map_place, self.map_memory = place if place is not None else bytes(memory), memory
        self.size += 4 * len(made)

    def _ragged(self, column: ColumnType, lengths: Array, name: str) -> Tuple[Any, Any, Array]:
        """Memory with its offsets written; a view of the data to fill."""
        kind = DTYPES[column.dtype]
        positions = int(lengths.sum()) if len(lengths) else 0
        begin, count = data_at(len(lengths)), positions * column.width
        place, memory = self._memory(begin + count * kind.itemsize)
        head = numpy.frombuffer(memory, I64, begin // 8)
        head[0] = 0
        numpy.cumsum(lengths, out=head[1:len(lengths) + 1])
        head[len(lengths) + 1:] = 0
        data = numpy.frombuffer(memory, kind, count, begin) if count else numpy.empty(0, kind)
        return place, memory, data.reshape(shape(positions, column.width))

    def empty(self, name: str, column: ColumnType, rows_or_lengths: Any) -> Array:
        """An array that the handler fills in place: of the whole column, or of all positions where it is ragged."""
        if column.ragged:
            lengths = _cast(rows_or_lengths, I64, f"the lengths of column '{name}'")
            if lengths.ndim != 1 or (lengths.size and int(lengths.min()) < 0):
                raise ValueError(f"column '{name}' was asked for with lengths that are not one number a row, 0 or more")
            self._set_rows(len(lengths), name)
            place, memory, data = self._ragged(column, lengths, name)
        else:
            rows = _row_count(rows_or_lengths, name)
            self._set_rows(rows, name)
            kind = DTYPES[column.dtype]
            place, memory = self._memory(rows * column.width * kind.itemsize)
            count = rows * column.width
            data = numpy.frombuffer(memory, kind, count) if count else numpy.empty(0, kind)
            data = data.reshape(shape(rows, column.width))
        self.ready[name] = (column, place, memory, data)
        return data

    def _put(self, name: str, column: ColumnType, place: Any, memory: Any) -> None:
        self.columns[name] = MadeColumn(column, place if place is not None else bytes(memory), memory)
        self.size += len(memory)

    def add(self, name: str, column: ColumnType, value: Any) -> None:
        ready = self.ready.get(name)
        if ready is not None and value is ready[3]:
            self._put(name, ready[0], ready[1], ready[2])
        elif not column.ragged:
            self._add_fixed(name, column, value)
        elif column.dtype == "text":
            self._add_texts(name, column, value)
        else:
            self._add_ragged(name, column, value)

    def _add_fixed(self, name: str, column: ColumnType, value: Any) -> None:
        kind = DTYPES[column.dtype]
        made = _cast(value, kind, f"column '{name}'")
        if made.ndim == 0:
            raise ValueError(f"column '{name}' was given one value where it has one a row")
        self._set_rows(made.shape[0], name)
        if made.size != made.shape[0] * column.width:
            raise ValueError(f"column '{name}' was given shape {made.shape} where rows of {column.width} are declared")
        if made.nbytes <= INLINE or self.arena is None:
            self._put(name, column, None, made.tobytes())
            return
        place, memory = self._memory(made.nbytes)
        numpy.frombuffer(memory, kind)[:] = made.reshape(-1)
        self._put(name, column, place, memory)

    def _add_ragged(self, name: str, column: ColumnType, value: Any) -> None:
        kind = DTYPES[column.dtype]
        if isinstance(value, Ragged):
            lengths, first = value.lengths, int(value.offsets[0]) if len(value) else 0
            flat = _cast(value.data[first:first + int(lengths.sum())], kind, f"column '{name}'")
        else:
            rows = [_cast(row, kind, f"column '{name}', row {i},")
                    for i, row in enumerate(_rows_of(value, name, "list"))]
            for i, row in enumerate(rows):
                if row.ndim == 0:
                    raise ValueError(f"column '{name}', row {i}, was given one value where it has a list")
                if row.size != len(row) * column.width:
                    raise ValueError(f"column '{name}', row {i}, has shape {row.shape} where positions of "
                                     f"{column.width} are declared")
            lengths = numpy.array([len(row) for row in rows], I64)
            flat = numpy.concatenate([row.reshape(-1) for row in rows]) if rows else numpy.empty(0, kind)
        self._set_rows(len(lengths), name)
        if flat.size != int(lengths.sum()) * column.width:
            raise ValueError(f"column '{name}' has positions that are not {column.width} elements wide")
        place, memory, data = self._ragged(column, lengths, name)
        if flat.size:
            data[...] = flat.reshape(data.shape)
        self._put(name, column, place, memory)

    def _add_texts(self, name: str, column: ColumnType, value: Any) -> None:
        if isinstance(value, Text):
            rows = [value.raw(i) for i in range(len(value))]
        else:
            rows = [_bytes_of(text, f"column '{name}', row {i},")
                    for i, text in enumerate(_rows_of(value, name, "text"))]
        self._set_rows(len(rows), name)
        place, memory, data = self._ragged(column, numpy.array([len(row) for row in rows], I64), name)
        if len(data):
            data[...] = numpy.frombuffer(b"".join(rows), numpy.uint8)
        self._put(name, column, place, memory)

    def pack(self, names: Sequence[str], names_as: Sequence[str], with_map: bool, whole: bool = False) -> bytes:
        """The body of a message with these columns, under the names that they have downstream. whole: with all bytes
        inside, for a reader that shares no memory."""
        columns = []
        for name, name_as in zip(names, names_as):
            column = self.columns[name]
            columns.append([name_as, column.type.dtype, column.type.ragged, column.type.width, self.rows,
                            bytes(column.memory) if whole else column.place])
        row_map = None
        if with_map and self.map_place is not None:
            row_map = bytes(self.map_memory) if whole else self.map_place
        return pack([FORMAT, self.rows, self.first, row_map, columns])

    def bytes_of(self, names: Sequence[str]) -> int:
        return sum(len(self.columns[name].memory) for name in names)

    def release(self) -> None:
        """Gives its blocks back."""
        self.ready.clear()
        if self.arena is not None:
            for block in self.blocks:
                self.arena.give(block)
        self.blocks = []
