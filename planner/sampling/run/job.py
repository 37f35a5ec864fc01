"""What a run works on: its request, what that was asked of, and the files that are there."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from planner.jobs.storage import write_whole
from planner.sampling.ask.prompts import Prompts
from planner.sampling.ask.request import SamplingRequest
from planner.sampling.ask.setup import OFFSETS, RATES, SETUP, Setup
from planner.sampling.derived import chunk_of, lists_of, part_of, probes_of, training_of
from planner.sampling.plan import SamplingPlan
from planner.sampling.run.neighbours import I64, Near
from planner.sampling.run.vectors import Chunks, whole


@dataclass(frozen=True)
class Job:
    """A run's folder, and everything that is derived from it."""

    folder: Path
    request: SamplingRequest
    setup: Setup

    @classmethod
    def of(cls, folder: Path) -> Job:
        """The job of a folder that was prepared."""
        request = SamplingRequest.model_validate_json((folder / "request.json").read_bytes())
        return cls(folder, request, Setup.model_validate_json((folder / SETUP).read_bytes()))

    @cached_property
    def plan(self) -> SamplingPlan:
        """The run as a plan."""
        return self.request.planned(self.setup.prompts, self.setup.width, self.setup.cores)

    @cached_property
    def chunks(self) -> Chunks:
        """The embeddings."""
        place = self.folder / "embeddings"
        place.mkdir(exist_ok=True)
        rows = int(chunk_of(self.plan))
        return Chunks(place, self.setup.prompts, self.setup.width, self.request.dtype, rows)

    def prompts(self) -> Prompts:
        """The file of prompts, by the offsets that its check has left."""
        offsets = array("q")
        with open(self.folder / OFFSETS, "rb") as file:
            offsets.fromfile(file, self.setup.prompts)
        path = Path(self.request.prompts)
        return Prompts(path, offsets, self.setup.prompts_sha256, self.setup.chats)

    @property
    def lists(self) -> int:
        """Lists of the IVF index."""
        return int(lists_of(self.plan))

    @property
    def probes(self) -> int:
        """Lists that a search visits."""
        return int(probes_of(self.plan))

    @property
    def training(self) -> int:
        """Prompts that train the lists."""
        return int(training_of(self.plan))

    @property
    def query_rows(self) -> int:
        """Queries of one part."""
        return int(part_of(self.plan))

    def parts(self) -> list[tuple[int, int]]:
        """Spans of queries, each kept in a file of its own; none crosses a chunk."""
        found = []
        for chunk in range(self.chunks.count):
            first, beyond = self.chunks.span(chunk)
            starts = range(first, beyond, self.query_rows)
            found += [(start, min(beyond, start + self.query_rows)) for start in starts]
        return found

    def part(self, start: int) -> Path:
        """Where the neighbours of a span are."""
        place = self.folder / "neighbours"
        place.mkdir(exist_ok=True)
        return place / f"neighbours-{start:09d}.parquet"

    def missing_parts(self) -> list[tuple[int, int]]:
        """Spans whose neighbours nobody has found yet."""
        return [span for span in self.parts() if not self.part(span[0]).exists()]

    def keep(self, start: int, found: Near) -> None:
        """Keep the neighbours of a span, distances and places."""
        distances, places = found
        near = distances.shape[1]
        columns = {
            "distances": pa.FixedSizeListArray.from_arrays(pa.array(distances.ravel()), near),
            "places": pa.FixedSizeListArray.from_arrays(pa.array(places.ravel()), near),
        }
        whole(self.part(start), pa.table(columns))

    def kept(self, column: str) -> Iterator[tuple[int, Any]]:
        """A column of every part, with its first place: shape [queries, neighbours]."""
        for start, beyond in self.parts():
            with pq.ParquetFile(self.part(start), memory_map=True) as file:
                flat = file.read([column]).column(column).combine_chunks().flatten()
            yield start, flat.to_numpy(zero_copy_only=False).reshape(beyond - start, -1)

    def rates(self) -> dict[str, float]:
        """What calibration found; empty before it."""
        try:
            found = json.loads((self.folder / RATES).read_text("utf-8"))
        except FileNotFoundError:
            return {}
        return {str(key): float(value) for key, value in found.items()}

    def compress_some(self) -> None:
        """Find, once, how far a compressor gets with the embeddings that are there."""
        if "compressed_share" not in self.rates():
            self.learn(compressed_share=self.chunks.compressed_share())

    def learn(self, **rates: float) -> None:
        """Keep more of what calibration found."""
        write_whole(self.folder / RATES, json.dumps({**self.rates(), **rates}))


def own_places(span: tuple[int, int]) -> I64:
    """The places of a span's queries."""
    return np.arange(*span, dtype=np.int64)

