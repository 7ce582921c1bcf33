"""Batches: how they travel, and how a handler sees them.

A batch that came is checked as a whole, then seen through numpy: data stay where they are (in the message, or in a slab
of shared memory), read-only; only the offsets of ragged columns are copied, before they are checked.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union, overload

import numpy

from ._arena import ALIGN, Arena, ArenaError
from ._wire import Malformed, is_int, unpack

FORMAT = 1
INLINE = 1024  # bytes: up to so many a column travels inside the message
ROWS_MAX = (1 << 31) - 1
COLUMNS_MAX = 4096
DTYPES: Dict[str, Any] = {"u8": numpy.dtype("u1"), "i32": numpy.dtype("<i4"), "i64": numpy.dtype("<i8"),
                          "f32": numpy.dtype("<f4"), "bf16": numpy.dtype("<u2"), "text": numpy.dtype("u1")}
I32, I64 = DTYPES["i32"], DTYPES["i64"]
Array = Any  # numpy.ndarray of whatever shape and type


class Ragged(Sequence[Any]):
    """A column whose rows differ in length: row i is data[offsets[i]:offsets[i + 1]], which indexing returns.

    Seen through a row map, indexing leads to the stored rows without a copy; `offsets` and `data` then are gathered
    when they are first asked for.
    """

    __slots__ = ("_offsets", "_data", "_index")

    def __init__(self, offsets: Array, data: Array, index: Optional[Array] = None) -> None:
        self._offsets = offsets
        self._data = data
        self._index = index

    def _gather(self) -> None:
        if self._index is None:
            return
        lengths = self.lengths
        offsets = numpy.zeros(len(lengths) + 1, I64)
        numpy.cumsum(lengths, out=offsets[1:])
        starts = self._offsets[self._index] - offsets[:-1]
        self._data = self._data[numpy.arange(int(offsets[-1])) + numpy.repeat(starts, lengths)]
        self._offsets = offsets
        self._index = None

    @property
    def offsets(self) -> Array:
        self._gather()
        return self._offsets

    @property
    def data(self) -> Array:
        self._gather()
        return self._data

    @property
    def lengths(self) -> Array:
        if self._index is None:
            return self._offsets[1:] - self._offsets[:-1]
        return self._offsets[self._index + 1] - self._offsets[self._index]

    def row(self, i: int) -> Array:
        """The elements of row i, a view."""
        if i < 0:
            i += len(self)
        if not 0 <= i < len(self):
            raise IndexError(f"row {i} of a column of {len(self)}")
        if self._index is not None:
            i = int(self._index[i])
        return self._data[self._offsets[i]:self._offsets[i + 1]]

    def __len__(self) -> int:
        return len(self._offsets) - 1 if self._index is None else len(self._index)

    @overload
    def __getitem__(self, i: int) -> Any: ...

    @overload
    def __getitem__(self, i: slice) -> List[Any]: ...

    def __getitem__(self, i: Union[int, slice]) -> Any:
        if isinstance(i, slice):
            return [self[row] for row in range(*i.indices(len(self)))]
        return self.row(i)

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            yield self[i]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows, {self._data.dtype})"


class Text(Ragged):
    """A text column: indexing returns str; raw(i) the bytes, which need not be UTF-8."""

    __slots__ = ()

    def raw(self, i: int) -> bytes:
        return bytes(self.row(i).tobytes())

    @overload
    def __getitem__(self, i: int) -> str: ...

    @overload
    def __getitem__(self, i: slice) -> List[str]: ...

    def __getitem__(self, i: Union[int, slice]) -> Any:
        if isinstance(i, slice):
            return [self[row] for row in range(*i.indices(len(self)))]
        return self.raw(i).decode("utf-8", "replace")


class StoredColumn(NamedTuple):
    dtype: str
    width: int
    offsets: Optional[Array]  # ragged
    data: Array  # one entry a row, or a position where ragged


def shape(count: int, width: int) -> Tuple[int, ...]:
    return (count,) if width == 1 else (count, width)


def data_at(rows: int) -> int:
    """Where the data of a ragged column begin behind its offsets."""
    return (8 * (rows + 1) + ALIGN - 1) // ALIGN * ALIGN


class Stored:
    """A batch, or a part of one, as it came."""

    __slots__ = ("rows", "first", "map", "columns", "slabs", "arena")

    def __init__(self, rows: int, first: int, row_map: Optional[Array], columns: Dict[str, StoredColumn]) -> None:
        self.rows = rows
        self.first = first
        self.map = row_map
        self.columns = columns
        self.slabs: List[int] = []
        self.arena: Optional[Arena] = None

    def release(self) -> None:
        """Lets go of the slabs that it lies in."""
        if self.arena is not None:
            for slab in self.slabs:
                self.arena.release(slab)
        self.slabs = []
        self.columns = {}
        self.map = None


class _Reader:
    def __init__(self, arena: Optional[Arena]) -> None:
        self.arena = arena
        self.slabs: List[int] = []

    def place(self, place: Any, what: str) -> Tuple[Any, int, int]:
        """A buffer, where in it, and how many bytes."""
        if type(place) is bytes:
            return place, 0, len(place)
        if type(place) is not list or len(place) != 3 or not is_int(place[0], 1) or not is_int(place[1], 0) \
                or not is_int(place[2], 1):
            raise Malformed(f"packed batch: the place of '{what}' is neither a binary nor [slab, offset, bytes]")
        number, offset, size = place
        if offset % ALIGN:
            raise Malformed(f"packed batch: '{what}' begins at byte {offset} of its slab: blocks begin at multiples "
                            f"of {ALIGN}")
        if self.arena is None:
            raise Malformed(f"packed batch: '{what}' lies in slab {number}, but no slabs can be mapped here")
        try:
            slab = self.arena.map(number)
        except ArenaError as error:
            raise Malformed(f"packed batch: slab {number} of '{what}' cannot be mapped: {error}") from None
        self.slabs.append(number)
        if offset > slab.size or size > slab.size - offset:
            raise Malformed(f"packed batch: '{what}' is {size} bytes at byte {offset} of slab {number}, which has "
                            f"{slab.size}")
        return slab.map, offset, size

    def column(self, item: Any, rows: int) -> Tuple[str, StoredColumn]:
        if type(item) is not list or len(item) != 6:
            raise Malformed("packed batch: a column is not an array of 6")
        name, dtype, ragged, width, own_rows, place = item
        if type(name) is not str or not 1 <= len(name.encode()) <= 255 or "\0" in name:
            raise Malformed("packed batch: a column's name is not a string of 1 to 255 bytes")
        if type(dtype) is not str or dtype not in DTYPES:
            raise Malformed(f"packed batch: the dtype of '{name}' is none of ours")
        if type(ragged) is not bool or not is_int(width, 0) or own_rows != rows or type(own_rows) is not int:
            raise Malformed(f"packed batch: '{name}' does not say whether it is ragged, its width, and the rows")
        if dtype == "text" and (not ragged or width != 1):
            raise Malformed(f"packed batch: '{name}' is text that is not ragged with width 1")
        kind = DTYPES[dtype]
        buffer, at, size = self.place(place, name)
        offsets, positions = None, rows
        if ragged:
            if size < 8 * (rows + 1):
                raise Malformed(f"packed batch: the {size} bytes of '{name}' do not hold the offsets of {rows} rows")
            offsets = numpy.frombuffer(buffer, I64, rows + 1, at).copy()
            if offsets[0] != 0 or bool((offsets[1:] < offsets[:-1]).any()):
                raise Malformed(f"packed batch: the offsets of '{name}' do not begin with 0, or decrease")
            positions = int(offsets[-1])
        begin = data_at(rows) if ragged else 0
        if begin + positions * width * kind.itemsize != size:
            raise Malformed(f"packed batch: '{name}' has {size} bytes, but its shape of {positions} positions of "
                            f"{width} {dtype} elements needs another number")
        count = positions * width
        data = numpy.frombuffer(buffer, kind, count, at + begin) if count else numpy.empty(0, kind)
        return name, StoredColumn(dtype, width, offsets, data.reshape(shape(positions, width)))

    def batch(self, body: bytes) -> Stored:
        items = unpack(body, "a packed batch")
        if type(items) is not list or len(items) != 5 or items[0] != FORMAT or type(items[0]) is not int:
            raise Malformed(f"packed batch: it is not an array of format {FORMAT}, rows, first row, map and columns")
        _, rows, first, place, columns = items
        if not is_int(rows, 0, ROWS_MAX) or not is_int(first, 0, ROWS_MAX - rows):
            raise Malformed(f"packed batch: {rows} rows from row {first} on: a batch has at most {ROWS_MAX}")
        row_map = None
        if place is not None:
            buffer, at, size = self.place(place, "row map")
            if size != 4 * rows:
                raise Malformed(f"packed batch: the row map has {size} bytes for {rows} rows of 4")
            row_map = numpy.frombuffer(buffer, I32, rows, at) if rows else numpy.empty(0, I32)
            if rows and int(row_map.min()) < 0:
                raise Malformed("packed batch: the row map says that a row came from a row below 0")
        if type(columns) is not list or len(columns) > COLUMNS_MAX:
            raise Malformed(f"packed batch: its columns are not an array of at most {COLUMNS_MAX}")
        made: Dict[str, StoredColumn] = {}
        for item in columns:
            name, column = self.column(item, rows)
            if name in made:
                raise Malformed(f"packed batch: column '{name}' is there twice")
            made[name] = column
        stored = Stored(rows, first, row_map, made)
        stored.slabs = self.slabs
        stored.arena = self.arena
        return stored


def unpack_batch(body: bytes, arena: Optional[Arena]) -> Stored:
    """Reads the body of a data message. The slabs that it lies in are held until release."""
    reader = _Reader(arena)
    try:
        return reader.batch(body)
    except Malformed:
        if arena is not None:
            for slab in reader.slabs:
                arena.release(slab)
        raise


def concat(parts: Sequence[Stored]) -> Stored:
    """The whole of parts that follow each other."""
    first = parts[0]
    row = first.first
    for part in parts:
        if part.first != row or list(part.columns) != list(first.columns) or (part.map is None) != (first.map is None):
            raise Malformed("the parts of a batch do not fit together")
        row += part.rows
    columns: Dict[str, StoredColumn] = {}
    for name, model in first.columns.items():
        pieces = [part.columns[name] for part in parts]
        if any((piece.dtype, piece.width) != (model.dtype, model.width) for piece in pieces):
            raise Malformed(f"column '{name}' of a part is not of the type and width that the first has")
        offsets = None
        if model.offsets is not None:
            shifts = numpy.cumsum([0] + [len(piece.data) for piece in pieces[:-1]])
            ends = [piece.offsets[1:] + shift for piece, shift in zip(pieces, shifts) if piece.offsets is not None]
            offsets = numpy.concatenate([numpy.zeros(1, I64)] + ends)
        columns[name] = StoredColumn(model.dtype, model.width, offsets,
                                     numpy.concatenate([piece.data for piece in pieces]))
    row_map = None if first.map is None else numpy.concatenate([part.map for part in parts])
    return Stored(row - first.first, first.first, row_map, columns)


def follow(maps: Sequence[Array], first: int, rows: int, stored_rows: int, name: str) -> Optional[Array]:
    """The stored rows behind rows first … first + rows - 1, through maps from the stage's rows outwards; None where
    there is no map."""
    if not maps:
        if first < 0 or first + rows > stored_rows:
            raise Malformed(f"column '{name}': rows {first} to {first + rows} are wanted, but {stored_rows} are stored")
        return None
    index = numpy.arange(first, first + rows)
    for lengths, step in zip([len(step) for step in maps], maps):
        if rows and (int(index.min()) < 0 or int(index.max()) >= lengths):
            raise Malformed(f"column '{name}' leads beyond a row map of {lengths} rows")
        index = step[index]
    if rows and (int(index.min()) < 0 or int(index.max()) >= stored_rows):
        raise Malformed(f"column '{name}' leads beyond the {stored_rows} rows that are stored")
    return index


def see(column: StoredColumn, index: Optional[Array], first: int, rows: int) -> Any:
    """A column as a handler gets it: an array of rows entries, a Ragged, or a Text."""
    if column.offsets is None:
        return column.data[first:first + rows] if index is None else column.data[index]
    kind = Text if column.dtype == "text" else Ragged
    if index is None:
        return kind(column.offsets[first:first + rows + 1], column.data)
    return kind(column.offsets, column.data, index)


class Weights(Mapping[str, Any]):
    """A published version of a model's weights: the columns that its writer chose, as arrays. They are read-only views
    of shared memory, valid until the stage is given another version; what is kept longer has to be copied."""

    __slots__ = ("version", "_columns")

    def __init__(self, version: int, stored: Stored) -> None:
        self.version = version  # as the run counts: the weights before the update of that batch
        self._columns = {name: see(column, None, 0, stored.rows) for name, column in stored.columns.items()}

    def __getitem__(self, name: str) -> Any:
        if name not in self._columns:
            raise KeyError(f"the published weights have no column '{name}': they have {', '.join(self._columns)}")
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Weights({self.version}, {', '.join(self._columns)})"


class Batch(Mapping[str, Any]):
    """What a handler is given: columns by the names that it declared. Arrays are views and read-only; what is kept
    beyond the handler has to be copied."""

    __slots__ = ("id", "rows", "first_row", "part", "parts", "_makers", "_seen")

    def __init__(self, number: int, rows: int, first_row: int, part: int, parts: int,
                 makers: Dict[str, Callable[[], Any]]) -> None:
        self.id = number
        self.rows = rows
        self.first_row = first_row  # of this part in the whole batch
        self.part = part
        self.parts = parts
        self._makers = makers
        self._seen: Dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._seen:
            maker = self._makers.get(name)
            if maker is None:
                raise KeyError(f"this stage was given no column '{name}': a need of that name would be right "
                               f"(it has {', '.join(self._makers) or 'none'})")
            self._seen[name] = maker()
        return self._seen[name]

    def unseen(self) -> List[str]:
        """The columns that nobody looked at."""
        return [name for name in self._makers if name not in self._seen]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        """The number of columns; `rows` has the rows."""
        return len(self._makers)

    def __repr__(self) -> str:
        return f"Batch({self.id}, {self.rows} rows, {', '.join(self._makers)})"
