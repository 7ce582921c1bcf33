"""Shared memory: slabs of the node, by descriptor 3. What an actor makes is written into slabs of its own; those of
others are mapped to be read.

What is free of an own slab is known only here, in private memory. A slab of another is mapped once and held while a
message that lies in it is in use; a numpy view that outlives that stays readable, but what it shows may change.
"""

from __future__ import annotations

import array
import mmap
import os
import select
import socket
import struct
import threading
import time
from typing import Dict, List, Optional, Tuple, Union

import numpy

ALIGN = 64
_MAGIC = 0x6B6C7562
_TAKE, _MAPPED, _MAP, _UNMAP, _FREE = 1, 2, 3, 4, 5
_ANSWER, _RETIRED = 1, 2
_OK, _LIMIT, _SYSTEM, _UNKNOWN, _HOLES = 0, 1, 2, 3, 4
_REQUEST = struct.Struct("=IIQQ")
_REPLY = struct.Struct("=IIIIQQQQ")
_GRAIN = 2 << 20
_SMALLEST, _LARGEST = 4 << 20, 256 << 20  # of a slab, unless one block needs more
_DEADLINE = 5.0  # seconds
_EMPTY_KEPT = 2
_POPULATE_WRITE = 23  # madvise, Linux 5.14


class ArenaError(RuntimeError):
    """No shared memory, and why."""


class Block:
    """A piece of an own slab: `view` is writable."""

    __slots__ = ("slab", "offset", "size", "view", "bytes")

    def __init__(self, slab: "_OwnSlab", offset: int, size: int, wanted: int) -> None:
        self.slab = slab
        self.offset = offset
        self.size = size  # taken
        self.bytes = wanted  # used
        self.view = memoryview(slab.map)[offset:offset + wanted]


class _OwnSlab:
    def __init__(self, number: int, size: int, mapping: mmap.mmap) -> None:
        self.number = number
        self.size = size
        self.map = mapping
        self.free: List[Tuple[int, int]] = [(0, size)]  # (offset, bytes) by rising offset; neighbours are joined
        self.live = 0

    def take(self, size: int) -> Optional[int]:
        for i, (offset, room) in enumerate(self.free):
            if room >= size:
                if room == size:
                    del self.free[i]
                else:
                    self.free[i] = (offset + size, room - size)
                self.live += 1
                return offset
        return None

    def give(self, offset: int, size: int) -> None:
        low = 0
        while low < len(self.free) and self.free[low][0] < offset:
            low += 1
        if low < len(self.free) and offset + size == self.free[low][0]:
            size += self.free.pop(low)[1]
        if low > 0 and sum(self.free[low - 1]) == offset:
            before = self.free[low - 1]
            self.free[low - 1] = (before[0], before[1] + size)
        else:
            self.free.insert(low, (offset, size))
        self.live -= 1


class _ReadSlab:
    def __init__(self, mapping: mmap.mmap, size: int) -> None:
        self.map = mapping
        self.size = size
        self.uses = 0
        self.retired = False


def _populate(mapping: mmap.mmap, size: int) -> None:
    try:
        mapping.madvise(_POPULATE_WRITE)
    except OSError:
        numpy.frombuffer(mapping, numpy.uint8)[::mmap.PAGESIZE] = 0


class Arena:
    """Any thread may call its methods; take and map may wait for the node, at most 5 s."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        if self._socket.type != socket.SOCK_SEQPACKET:
            raise ArenaError(f"descriptor {descriptor} is no connection to the node's shared memory: "
                             "this program is started by verl-run")
        self._socket.setblocking(False)
        os.set_inheritable(descriptor, False)
        self._lock = threading.RLock()
        self._own: List[_OwnSlab] = []
        self._read: Dict[int, _ReadSlab] = {}
        self._broken = False

    # talking to the node

    def _hear(self) -> Optional[Tuple[Tuple[int, ...], int]]:
        """One reply and its descriptor (-1: none); None: there is none now."""
        fds = array.array("i")
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(_REPLY.size + 1, socket.CMSG_SPACE(fds.itemsize),
                                                             socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return None
        except OSError:
            data, ancillary = b"", []
        for level, kind, item in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(item[:len(item) - len(item) % fds.itemsize])
        if len(data) != _REPLY.size or _REPLY.unpack(data)[0] != _MAGIC:
            for descriptor in fds:
                os.close(descriptor)
            self._broken = True
            raise ArenaError("the node that owns the shared memory is gone")
        return _REPLY.unpack(data), fds[0] if fds else -1

    def _on_retired(self, number: int) -> None:
        slab = self._read.get(number)
        if slab is not None:
            slab.retired = True
            self._end_read(number, slab)

    def _listen(self) -> None:
        while not self._broken:
            heard = self._hear()
            if heard is None:
                return
            reply, descriptor = heard
            if descriptor >= 0:
                os.close(descriptor)
            if reply[1] == _RETIRED:
                self._on_retired(reply[4])

    def _say(self, kind: int, slab: int) -> None:
        try:
            self._socket.send(_REQUEST.pack(_MAGIC, kind, slab, 0))
        except OSError:
            pass  # the node keeps it until this process ends

    def _ask(self, kind: int, slab: int, size: int) -> Tuple[Tuple[int, ...], int]:
        until = time.monotonic() + _DEADLINE
        if self._broken:
            raise ArenaError("the node that owns the shared memory is gone")
        while True:
            try:
                self._socket.send(_REQUEST.pack(_MAGIC, kind, slab, size))
                break
            except BlockingIOError:
                self._wait(select.POLLOUT, until)
            except OSError:
                self._broken = True
                raise ArenaError("the node that owns the shared memory is gone") from None
        while True:
            heard = self._hear()
            if heard is None:
                self._wait(select.POLLIN, until)
            elif heard[0][1] == _ANSWER:
                return heard
            else:
                if heard[1] >= 0:
                    os.close(heard[1])
                self._on_retired(heard[0][4])

    def _wait(self, events: int, until: float) -> None:
        left = until - time.monotonic()
        poll = select.poll()
        poll.register(self._socket, events)
        if left <= 0 or not poll.poll(left * 1e3):
            self._broken = True  # an answer that comes later would be taken for another one's
            raise ArenaError(f"the node that owns the shared memory did not answer within {_DEADLINE:.0f} s")

    # blocks of its own

    def _take_there(self, size: int, wanted: int) -> Optional[Block]:
        for slab in self._own:
            offset = slab.take(size)
            if offset is not None:
                return Block(slab, offset, size, wanted)
        return None

    def _grow(self, size: int) -> None:
        reply, descriptor = self._ask(_TAKE, 0, size)
        code, number = reply[2], reply[4]
        if code == _LIMIT:
            raise ArenaError(f"no shared memory for a slab of {size >> 20} MiB: {reply[6] >> 20} MiB of the "
                             f"{reply[7] >> 20} MiB that the run may use are in use; raise [run] max_bytes or lower "
                             "max_in_flight")
        if code != _OK or descriptor < 0:
            raise ArenaError(f"the node cannot make a slab of {size >> 20} MiB: {os.strerror(reply[3])}")
        try:
            mapping = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
            os.posix_fallocate(descriptor, 0, size)
            _populate(mapping, size)
        except OSError as error:
            self._say(_FREE, number)
            raise ArenaError(f"the system has no memory for a new slab of {size >> 20} MiB: {error}") from None
        finally:
            os.close(descriptor)
        reply, extra = self._ask(_MAPPED, number, 0)
        if extra >= 0:
            os.close(extra)
        if reply[2] != _OK:
            self._say(_FREE, number)
            raise ArenaError(f"the node refuses to seal a slab of {size >> 20} MiB")
        self._own.append(_OwnSlab(number, size, mapping))

    def take(self, wanted: int) -> Block:
        """A block of so many bytes, aligned to 64; its contents are undefined."""
        size = (max(wanted, 1) + ALIGN - 1) // ALIGN * ALIGN
        with self._lock:
            block = self._take_there(size, wanted)
            if block is not None:
                return block
            self._listen()
            need = (size + _GRAIN - 1) // _GRAIN * _GRAIN
            largest = max((slab.size for slab in self._own), default=_SMALLEST // 2)
            wish = max(need, min(_LARGEST, max(_SMALLEST, 2 * largest)))
            try:
                self._grow(wish)
            except ArenaError:
                if self._broken:
                    raise
                self._shed(0)
                self._grow(need)
            block = self._take_there(size, wanted)
            if block is None:
                raise ArenaError(f"a new slab has no room for {wanted} bytes")
            return block

    def give(self, block: Block) -> None:
        with self._lock:
            block.view = memoryview(b"")
            block.slab.give(block.offset, block.size)
            if block.slab.live == 0:
                self._shed(_EMPTY_KEPT)

    def _shed(self, keep: int) -> None:
        """Gives back empty slabs beyond so many, the smallest first."""
        empty = sorted((slab for slab in self._own if slab.live == 0), key=lambda slab: slab.size)
        for slab in empty[:max(0, len(empty) - keep)]:
            self._own.remove(slab)
            self._say(_FREE, slab.number)

    # slabs of others

    def map(self, number: int) -> _ReadSlab:
        """Counts one more use of a slab, which is fetched where it is not mapped."""
        with self._lock:
            slab = self._read.get(number)
            if slab is None:
                slab = self._read[number] = self._fetch(number)
            slab.uses += 1
            return slab

    def _fetch(self, number: int) -> _ReadSlab:
        reply, descriptor = self._ask(_MAP, number, 0)
        try:
            if reply[2] == _UNKNOWN:
                raise ArenaError(f"slab {number} is not there: its writer let it go, or never had it sealed")
            if reply[2] != _OK or descriptor < 0:
                raise ArenaError(f"the node cannot hand out slab {number}: {os.strerror(reply[3])}")
            try:
                mapping = mmap.mmap(descriptor, reply[5], mmap.MAP_SHARED, mmap.PROT_READ)
            except (OSError, ValueError) as error:
                self._say(_UNMAP, number)
                raise ArenaError(f"slab {number} cannot be mapped: {error}") from None
            return _ReadSlab(mapping, reply[5])
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _end_read(self, number: int, slab: _ReadSlab) -> None:
        if slab.retired and slab.uses == 0:
            del self._read[number]
            self._say(_UNMAP, number)

    def release(self, number: int) -> None:
        with self._lock:
            slab = self._read.get(number)
            if slab is not None:
                slab.uses -= 1
                self._end_read(number, slab)

    def tend(self) -> None:
        """Does what the node said since the last time."""
        with self._lock:
            try:
                self._listen()
            except ArenaError:
                pass  # whoever next needs memory is told

    def fileno(self) -> int:
        return self._socket.fileno()

    def mapped_bytes(self) -> int:
        with self._lock:
            return sum(slab.size for slab in self._read.values())


Buffer = Union[bytes, memoryview, mmap.mmap]
