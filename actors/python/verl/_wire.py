"""Messages: what a frame holds and how it is read. Nothing of a message is believed before all of it was checked."""

from __future__ import annotations

import threading
import time
from typing import Any, Iterator, List, NamedTuple

import msgpack

from ._program import PROTOCOL

DATA, STATUS, PING, PONG = 1, 2, 3, 4
REPORT, CONTROL = -1, -2  # the edges beside those of plans
DIRECTOR = 1  # its incarnation
FIELDS = 12  # of a message, the body included
REVISION_SHIFT = 20  # an edge's number: revision << 20 | index in that revision's plan
_TYPES = (FIELDS - 1) * [int] + [bytes]
INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1

now_ns = time.monotonic_ns


class Malformed(ValueError):
    """Something came over a socket that cannot be believed; the text says what."""


class Message(NamedTuple):
    type: int
    edge: int
    sender: int
    receiver: int
    seq: int
    revision: int
    batch: int
    part: int
    parts: int
    time: int
    body: bytes


class _Packer(threading.local):
    """One for each thread: it is made once, and keeps its buffer."""

    def __init__(self) -> None:
        self.pack = msgpack.Packer(use_bin_type=True).pack


_packer = _Packer()


def pack(value: Any) -> bytes:
    return bytes(_packer.pack(value))


def unpack(data: bytes, what: str) -> Any:
    """One whole msgpack value, or Malformed. Counts are bounded by the bytes that are there."""
    size = len(data)
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=False, max_str_len=size, max_bin_len=size,
                               max_array_len=size, max_map_len=size, max_ext_len=0)
    except Exception as error:  # msgpack raises many kinds
        raise Malformed(f"{what} is malformed") from error


def write(message: Message) -> bytes:
    return bytes(_packer.pack((PROTOCOL, *message)))


def is_int(value: Any, least: int = INT_MIN, most: int = INT_MAX) -> bool:
    return type(value) is int and least <= value <= most


def _check(fields: Any) -> Message:
    if type(fields) is not list or not fields or type(fields[0]) is not int:
        raise Malformed("a frame does not begin with a message")
    if fields[0] != PROTOCOL:
        raise Malformed(f"a message of protocol {fields[0]} came; this party speaks protocol {PROTOCOL}")
    if list(map(type, fields)) != _TYPES:
        raise Malformed("a message is malformed")
    message = Message(*fields[1:])
    if min(message[2:5]) < 0 or max(message[5:10]) > INT_MAX or message.edge > INT_MAX:
        raise Malformed("a message is malformed")
    if not DATA <= message.type <= PONG:
        raise Malformed(f"a message has the unknown type {message.type}")
    if message.type == DATA and (message.seq == 0 or not 0 <= message.part < message.parts):
        raise Malformed(f"a message has seq {message.seq} and part {message.part} of {message.parts}")
    return message


def read_frame(frame: bytes) -> Iterator[Message]:
    """The messages of a frame, one behind the other; raises Malformed where one cannot be read."""
    size = len(frame)
    unpacker = msgpack.Unpacker(raw=False, max_buffer_size=size + 1, max_array_len=FIELDS, max_map_len=0,
                                max_ext_len=0, max_str_len=0, max_bin_len=size)
    unpacker.feed(frame)
    while unpacker.tell() < size:
        try:
            fields: List[Any] = unpacker.unpack()
        except Exception as error:
            raise Malformed("a message is malformed") from error
        yield _check(fields)
