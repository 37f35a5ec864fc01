"""Embeddings on disk: Parquet chunks, written whole or not at all, mapped into memory to read.

One column of fixed-size binary, little-endian values of one vector a row: pages are copied, not
decoded, which a list of numbers would be. Row groups bound what a read holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

F32 = npt.NDArray[np.float32]
GROUP_BYTES = 16 * 2**20
"""Of a row group, so that reading a chunk holds this beside the rows it fills."""
SAMPLE_BYTES = 4 * 2**20
"""Of the rows that are compressed to see how far that gets."""
STORED: dict[str, np.dtype[Any]] = {"fp32": np.dtype("<f4"), "fp16": np.dtype("<f2")}


@dataclass(frozen=True, slots=True)
class Chunks:
    """The embeddings of ``prompts`` prompts in files of ``rows`` rows each, the last one shorter.

    Vectors have unit length before they are stored (``dtype`` fp32 or fp16).
    """

    folder: Path
    prompts: int
    width: int
    dtype: str
    rows: int

    @property
    def count(self) -> int:
        """Files when all are there."""
        return -(-self.prompts // self.rows)

    def span(self, chunk: int) -> tuple[int, int]:
        """First prompt of a chunk, and the first beyond it."""
        return chunk * self.rows, min(self.prompts, (chunk + 1) * self.rows)

    def file(self, chunk: int) -> Path:
        """Where a chunk is."""
        return self.folder / f"embeddings-{chunk:06d}.parquet"

    def missing(self) -> list[int]:
        """Chunks that nobody has written yet."""
        return [chunk for chunk in range(self.count) if not self.file(chunk).exists()]

    def write(self, chunk: int, vectors: F32) -> None:
        """Keep a chunk of vectors, shape [its rows, width]."""
        first, beyond = self.span(chunk)
        if vectors.shape != (beyond - first, self.width):
            raise ValueError(f"chunk {chunk} has shape {vectors.shape}")
        stored = np.ascontiguousarray(vectors, dtype=STORED[self.dtype])
        whole(self.file(chunk), self._table(stored, first), self.group_rows)

    def _table(self, stored: npt.NDArray[Any], first: int) -> pa.Table:
        kind = pa.binary(self.width * stored.itemsize)
        column = pa.FixedSizeBinaryArray.from_buffers(
            kind, len(stored), [None, pa.py_buffer(stored)]
        )
        said = {"dtype": self.dtype, "width": str(self.width), "first": str(first)}
        return pa.table({"embedding": column}).replace_schema_metadata(said)

    @property
    def group_rows(self) -> int:
        """Rows of a row group, but for a file's last."""
        return max(1, GROUP_BYTES // (self.width * STORED[self.dtype].itemsize))

    def read_into(self, chunk: int, out: npt.NDArray[Any]) -> None:
        """Fill ``out`` (shape [its rows, width], any float dtype) with a chunk's vectors.

        Raises:
            ValueError: where the file is not the chunk that it is taken for.
        """
        self._read(chunk, self.span(chunk)[0], out)

    def rows_of(self, start: int, end: int) -> F32:
        """The vectors of prompts ``start`` to ``end`` of one chunk as float32."""
        found = np.empty((end - start, self.width), np.float32)
        self._read(start // self.rows, start, found)
        return found

    def _read(self, chunk: int, start: int, out: npt.NDArray[Any]) -> None:
        """Fill ``out`` with a chunk's vectors from this prompt on, by row groups that have them."""
        first, beyond = self.span(chunk)
        with pq.ParquetFile(self.file(chunk), memory_map=True) as file:
            said = file.schema_arrow.metadata or {}
            own = (self.dtype.encode(), str(self.width).encode(), str(first).encode())
            asked = tuple(said.get(key) for key in (b"dtype", b"width", b"first"))
            if asked != own or file.metadata.num_rows != beyond - first:
                raise ValueError(f"{self.file(chunk).name} is not of this run; delete it.")
            begin = start - first
            for group in range(begin // self.group_rows, file.num_row_groups):
                at = group * self.group_rows - begin
                if at >= len(out):
                    return
                column = file.read_row_group(group).column("embedding").chunk(0)
                rows = np.frombuffer(column.buffers()[1], dtype=STORED[self.dtype])
                rows = rows.reshape(-1, self.width)[column.offset : column.offset + len(column)]
                rows = rows[max(0, -at) : len(out) - at]
                out[max(0, at) : max(0, at) + len(rows)] = rows

    def compressed_share(self) -> float:
        """What zstd leaves of the first rows' values in such a file."""
        first, beyond = self.span(0)
        stored = STORED[self.dtype]
        least = max(1, SAMPLE_BYTES // (self.width * stored.itemsize))
        rows = np.empty((min(beyond - first, least), self.width), stored)
        self._read(0, first, rows)
        sink = pa.BufferOutputStream()
        _write(self._table(rows, first), sink, len(rows), compression="zstd")
        group = pq.ParquetFile(sink.getvalue()).metadata.row_group(0)
        return float(group.column(0).total_compressed_size / rows.nbytes)

    def blocks(self) -> Iterator[tuple[int, F32]]:
        """Every chunk in turn as float32, in one array that the next chunk overwrites."""
        buffer = np.empty((min(self.rows, self.prompts), self.width), np.float32)
        for chunk in range(self.count):
            first, beyond = self.span(chunk)
            self.read_into(chunk, buffer[: beyond - first])
            yield first, buffer[: beyond - first]

    def whole(self) -> npt.NDArray[Any]:
        """All vectors in one array of the stored dtype."""
        found = np.empty((self.prompts, self.width), STORED[self.dtype])
        for chunk in range(self.count):
            first, beyond = self.span(chunk)
            self.read_into(chunk, found[first:beyond])
        return found

    def rows_at(self, places: npt.NDArray[np.int64]) -> F32:
        """The vectors of some prompts (ascending places) as float32, chunk by chunk."""
        found = np.empty((len(places), self.width), np.float32)
        buffer = np.empty((min(self.rows, self.prompts), self.width), STORED[self.dtype])
        for chunk in np.unique(places // self.rows):
            first, beyond = self.span(int(chunk))
            self.read_into(int(chunk), buffer[: beyond - first])
            inside = (places >= first) & (places < beyond)
            found[inside] = buffer[places[inside] - first]
        return found


def whole(path: Path, table: pa.Table, group_rows: int = 2**20) -> None:
    """Write a Parquet file whole or not at all: a kill leaves no half of one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        _write(table, fresh, group_rows)
        os.replace(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def _write(table: pa.Table, to: Any, group_rows: int, compression: str = "none") -> None:
    pq.write_table(
        table, to, row_group_size=group_rows, compression=compression, use_dictionary=False,
        write_statistics=False,
    )
