"""The same stages past one machine, as Ray Data jobs over chunks and tiles. Loads Ray.

Every piece is what one process computes, and is written to the run's folder by the same names, so
the folder has to be one that all nodes share, and a run can go on with or without Ray. Tiles of a
shard are merged where they are computed and shards here, by distance and then by place: exactly.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from planner.sampling.run import ivf, stages
from planner.sampling.run.job import Job, own_places
from planner.sampling.run.meter import Meter, Say
from planner.sampling.run.neighbours import Near, merged, search_of, tile, without_self

LOCAL = "local"
STORE_BYTES = 128 * 2**20
"""Of a cluster that is begun here: what passes through it is small."""


@contextmanager
def cluster(address: str) -> Iterator[int]:
    """A connection to a cluster, or one of this machine's processors; how many CPUs it has."""
    import ray
    import ray.data

    with tempfile.TemporaryDirectory(prefix="headroom-") as place:
        more: dict[str, Any] = {"address": address, "runtime_env": _shipped(Path(place))}
        if address == LOCAL:
            more = {"include_dashboard": False, "object_store_memory": STORE_BYTES}
        ray.init(log_to_driver=False, configure_logging=False, **more)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        try:
            yield max(1, int(ray.cluster_resources().get("CPU", 1)))
        finally:
            ray.shutdown()


def _shipped(place: Path) -> dict[str, Any]:
    """This planner, for nodes that have its libraries and the run's folder."""
    from planner.trial.cluster import shipment

    shipment.pack(place)
    return {"working_dir": str(place)}


@dataclass
class Embed:
    """A node's model, which embeds chunks."""

    folder: Path
    job: Job = field(init=False)
    embedder: Any = None

    def __post_init__(self) -> None:
        """Load the model once."""
        from planner.sampling.run.embed import Embedder

        self.job = Job.of(self.folder)
        request = self.job.request
        self.embedder = Embedder(
            Path(self.job.setup.model_folder),
            embedding=request.embedding,
            dtype=request.model_dtype,
            device="cuda:0" if request.device != "cpu" else "cpu",
            prompt_tokens=request.prompt_tokens,
        )

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Embed a chunk and write it."""
        chunk = int(row["chunk"])
        vectors = stages.embed_chunk(self.job, self.embedder, self.job.prompts(), chunk)
        self.job.chunks.write(chunk, vectors)
        return row


def embed(job: Job, meter: Meter, say: Say, cpus: int) -> None:
    """Embed the chunks that are missing, a node's model at a time."""
    missing = job.chunks.missing()
    if not missing:
        return
    on_card = job.request.device != "cpu"
    with meter.stage("embed") as step:
        done = job.chunks.count - len(missing)
        for row in _mapped(
            [{"chunk": chunk} for chunk in missing],
            Embed,
            fn_constructor_args=(job.folder,),
            compute=_actors(min(len(missing), max(1, cpus // 2))),
            num_cpus=1,
            num_gpus=1 if on_card else 0,
        ):
            done += 1
            first, _ = job.chunks.span(int(row["chunk"]))
            say("computed", what="embeddings", first=first)
            step.at(min(job.setup.prompts, done * job.chunks.rows), job.setup.prompts)
        job.compress_some()


def find_neighbours(job: Job, meter: Meter, say: Say, cpus: int) -> None:
    """Find the neighbours of every span that has none yet."""
    spans = job.missing_parts()
    if not spans:
        stages.sample_recall(job, meter)
        return
    if job.request.index == "faiss-ivf":
        _listed(job, meter, say, spans, cpus)
        stages.sample_recall(job, meter)
        return
    shards = min(cpus, job.chunks.count)
    asked = [
        {"first": first, "beyond": beyond, "shard": shard, "shards": shards}
        for first, beyond in spans
        for shard in range(shards)
    ]
    waiting: dict[int, tuple[int, Near]] = {}
    ends = dict(spans)
    with meter.stage("search") as step:
        done = 0
        for row in _mapped(asked, Tiles, fn_constructor_args=(job.folder,), num_cpus=1,
                           compute=_actors(min(cpus, len(asked)))):
            first, near = int(row["first"]), _near(row)
            heard, before = waiting.pop(first, (0, None))
            near = merged(before, near, job.request.neighbours + 1)
            if heard + 1 < shards:
                waiting[first] = heard + 1, near
                continue
            job.keep(first, without_self(near, own_places((first, ends[first]))))
            say("computed", what="neighbours", first=first)
            done += ends[first] - first
            step.at(done, job.setup.prompts)


@dataclass
class Tiles:
    """A node that searches a shard's chunks for the queries of a span."""

    folder: Path
    job: Job = field(init=False)

    def __post_init__(self) -> None:
        """Read what the run is."""
        self.job = Job.of(self.folder)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The nearest of a span among a shard."""
        job, count = self.job, self.job.request.neighbours + 1
        queries = job.chunks.rows_of(int(row["first"]), int(row["beyond"]))
        found: Near | None = None
        for chunk in range(int(row["shard"]), job.chunks.count, int(row["shards"])):
            first, beyond = job.chunks.span(chunk)
            vectors = np.empty((beyond - first, job.setup.width), np.float32)
            job.chunks.read_into(chunk, vectors)
            own = tile(search_of(job.request.index), queries, vectors, first, count)
            found = merged(found, own, count)
        assert found is not None
        return _row(int(row["first"]), found)


def _listed(job: Job, meter: Meter, say: Say, spans: list[tuple[int, int]], cpus: int) -> None:
    """Train here, assign and search on the nodes, each of which holds the whole index."""
    place = job.folder / "index"
    place.mkdir(exist_ok=True)

    def done(what: str, number: int, of: int) -> None:
        say("computed", what=what, first=number)

    with meter.stage("train"):
        ivf.centroids(job.chunks, job.lists, job.training, place, done)
    ends = dict(spans)
    with meter.stage("search") as step:
        for row in _mapped(
            [{"first": first, "beyond": beyond} for first, beyond in spans],
            Lists,
            fn_constructor_args=(job.folder,),
            compute=_actors(max(1, min(cpus // 2, len(spans)))),
            num_cpus=1,
        ):
            first = int(row["first"])
            job.keep(first, without_self(_near(row), own_places((first, ends[first]))))
            say("computed", what="neighbours", first=first)
            step.at(ends[first], job.setup.prompts)


@dataclass
class Lists:
    """A node with the whole index, which searches spans."""

    folder: Path
    job: Job = field(init=False)
    index: Any = None

    def __post_init__(self) -> None:
        """Fill the lists once; lists of chunks that nobody has assigned are found meanwhile."""
        self.job = job = Job.of(self.folder)
        place = job.folder / "index"
        centres = np.load(place / "centroids.npy")
        self.index = ivf.Index(job.chunks, centres, job.probes, place, lambda *done: None)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The nearest of a span among the probed lists."""
        span = int(row["first"]), int(row["beyond"])
        queries = self.job.chunks.rows_of(*span)
        return _row(span[0], self.index.nearest(queries, self.job.request.neighbours))


def _row(first: int, near: Near) -> dict[str, Any]:
    """A result as a row of Ray Data: bytes, so that no bit is lost on the way."""
    return {
        "first": first,
        "near": near[0].shape[1],
        "distances": near[0].tobytes(),
        "places": near[1].tobytes(),
    }


def _near(row: dict[str, Any]) -> Near:
    shape = (-1, int(row["near"]))
    return (
        np.frombuffer(row["distances"], np.float64).reshape(shape),
        np.frombuffer(row["places"], np.int64).reshape(shape),
    )


def _actors(count: int) -> Any:
    import ray.data

    return ray.data.ActorPoolStrategy(size=count)


def _mapped(rows: list[dict[str, Any]], does: type, **more: Any) -> Iterator[dict[str, Any]]:
    """Rows as they are done, in whatever order."""
    import ray.data

    given = ray.data.from_items(rows, override_num_blocks=len(rows))
    yield from given.map(does, **more).iter_rows()
