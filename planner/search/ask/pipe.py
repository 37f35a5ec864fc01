"""Python values over the pipes between this app's own processes, each behind its length."""

from __future__ import annotations

import os
import pickle
import struct
from select import select
from typing import Any, BinaryIO

LENGTH = struct.Struct("!Q")


class Closed(Exception):
    """The other process has gone."""


def send(stream: BinaryIO, value: Any) -> None:
    """Write a value; raises :class:`Closed` where nobody reads."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    try:
        stream.write(LENGTH.pack(len(data)) + data)
        stream.flush()
    except (BrokenPipeError, ValueError) as error:
        raise Closed from error


def receive(stream: BinaryIO) -> Any:
    """Wait for a value; raises :class:`Closed` where nobody writes any more."""
    (length,) = LENGTH.unpack(_read(stream, LENGTH.size))
    return pickle.loads(_read(stream, length))


def waits(stream: BinaryIO, seconds: float = 0.0) -> bool:
    """Whether something can be read within so many seconds; a stream must be unbuffered."""
    return bool(select([stream], [], [], seconds)[0])


def _read(stream: BinaryIO, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = os.read(stream.fileno(), min(size, 1 << 20))
        if not part:
            raise Closed
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
