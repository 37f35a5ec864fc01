"""The stages of a run: embed, read, search, weigh. What is there is not computed again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from planner.jobs.storage import write_whole
from planner.jobs.strict import shown
from planner.sampling.ask.prompts import key_of, text_of
from planner.sampling.ask.store import WEIGHTS
from planner.sampling.ask.weights import metadata, provenance
from planner.sampling.run import density, ivf
from planner.sampling.run.calibrate import search_rates
from planner.sampling.run.job import Job, own_places
from planner.sampling.run.meter import Meter, Say, anonymous_bytes, give_back
from planner.sampling.run.neighbours import (
    F64,
    blocks_of,
    by_faiss,
    nearest,
    search_of,
    without_self,
)
from planner.sampling.run.vectors import F32, STORED, whole

RECALL = "recall.json"
EXAMPLES = 12
BINS = 60
KEYS = 65_536
"""Of prompts, that are text at a time."""
Vectors = npt.NDArray[Any]


def calibrate(job: Job, meter: Meter) -> None:
    """Find the rates of the search, once."""
    if "pair_seconds" in job.rates():
        return
    before = anonymous_bytes()
    with meter.stage("calibrate search"):
        job.learn(**search_rates(job, job.request.calibration_seconds / 2))
    give_back()
    after = anonymous_bytes()
    if before is not None and after is not None:
        job.learn(threads_bytes=max(0, after - before))


def embed(job: Job, meter: Meter, say: Say) -> tuple[object, Vectors | None]:
    """Embed what is missing; in online mode the model and all vectors stay."""
    online = job.request.mode == "online"
    held: Vectors | None = None
    missing = job.chunks.missing()
    embedder: Any = None
    if missing or online:
        from planner.sampling.run.embed import Embedder, seconds_a_prompt

        with meter.stage("load"):
            embedder = Embedder(
                Path(job.setup.model_folder),
                embedding=job.request.embedding,
                dtype=job.request.model_dtype,
                device=job.request.device,
                prompt_tokens=job.request.prompt_tokens,
            )
        if missing and "prompt_seconds" not in job.rates():
            with meter.stage("calibrate embed") as step:
                seconds, _ = seconds_a_prompt(
                    embedder,
                    job.prompts(),
                    job.request.batch_size,
                    job.chunks.rows,
                    job.request.calibration_seconds / 2,
                )
            # With its model and a batch: nobody knows the bytes of a model that is not cataloged.
            process = step.peak.bytes
            job.learn(prompt_seconds=seconds)
            if process is not None:
                job.learn(embed_process_bytes=process)
                if online:
                    job.learn(search_process_bytes=process)
            say("calibrated", **job.rates())
    with meter.stage("embed") as step:
        if online:
            held = np.empty((job.setup.prompts, job.setup.width), STORED[job.request.dtype])
        prompts = job.prompts()
        for chunk in range(job.chunks.count):
            first, beyond = job.chunks.span(chunk)
            if chunk in missing:
                vectors = embed_chunk(job, embedder, prompts, chunk, step.at)
                job.chunks.write(chunk, vectors)
                say("computed", what="embeddings", first=first)
                if held is not None:
                    held[first:beyond] = vectors
                del vectors
            elif held is not None:
                job.chunks.read_into(chunk, held[first:beyond])
            step.at(beyond, job.setup.prompts)
        job.compress_some()
    return embedder, held


def embed_chunk(job: Job, embedder: Any, prompts: Any, chunk: int, at: Any = None) -> F32:
    """The vectors of one chunk, shape [its rows, width]."""
    first, beyond = job.chunks.span(chunk)
    ids = embedder.tokens(list(prompts.read(first, beyond)))

    def done(count: int) -> None:
        if at is not None:
            at(first + count, job.setup.prompts)

    found: F32 = embedder.chunk(ids, job.request.batch_size, done, job.setup.width)
    return found


def find_neighbours(job: Job, meter: Meter, say: Say, held: Vectors | None) -> None:
    """Find the neighbours of every span that has none yet; of lists, sample how many they find."""
    if job.missing_parts():
        _search(job, meter, say, held)
    sample_recall(job, meter, held)


def _search(job: Job, meter: Meter, say: Say, held: Vectors | None) -> None:
    index: ivf.Index | None = None
    if job.request.index == "faiss-ivf":
        index = _index(job, meter, say)
    elif held is None and job.request.mode != "streaming":
        with meter.stage("read"):
            held = job.chunks.whole()
    with meter.stage("search") as step:
        for span in job.missing_parts():
            queries = _queries(job, span, held)
            if index is not None:
                found = index.nearest(queries, job.request.neighbours)
            else:
                search = search_of(job.request.index)
                found = nearest(search, queries, _blocks(job, held), job.request.neighbours)
            job.keep(span[0], without_self(found, own_places(span)))
            say("computed", what="neighbours", first=span[0])
            step.at(span[1], job.setup.prompts)


def _index(job: Job, meter: Meter, say: Say) -> ivf.Index:
    place = job.folder / "index"
    place.mkdir(exist_ok=True)

    def done(what: str, number: int, of: int) -> None:
        say("computed", what=what, first=number)

    with meter.stage("train"):
        centres = ivf.centroids(job.chunks, job.lists, job.training, place, done)
    with meter.stage("assign"):
        return ivf.Index(job.chunks, centres, job.probes, place, done)


def _queries(job: Job, span: tuple[int, int], held: Vectors | None) -> F32:
    if held is not None:
        return held[slice(*span)].astype(np.float32, copy=False)
    return job.chunks.rows_of(*span)


def _blocks(job: Job, held: Vectors | None) -> Iterable[tuple[int, F32]]:
    return job.chunks.blocks() if held is None else blocks_of(held, job.chunks.rows)


def sample_recall(job: Job, meter: Meter, held: Vectors | None = None) -> None:
    """Compare the neighbours that lists gave a sample of prompts with their exact ones, once."""
    file, asked = job.folder / RECALL, job.request
    if asked.index != "faiss-ivf" or not asked.recall_prompts or file.exists():
        return
    with meter.stage("recall"):
        count = min(asked.recall_prompts, job.setup.prompts)
        chance = np.random.default_rng(ivf.SEED + 1)
        places = np.sort(chance.choice(job.setup.prompts, count, replace=False)).astype(np.int64)
        queries = job.chunks.rows_at(places)
        exact = nearest(by_faiss, queries, _blocks(job, held), asked.neighbours)
        found = np.empty((count, asked.neighbours), np.int64)
        for start, near in job.kept("places"):
            inside = (places >= start) & (places < start + len(near))
            found[inside] = near[places[inside] - start]
        share = ivf.recall(found, without_self(exact, places)[1])
    write_whole(file, json.dumps(share))


def weigh(job: Job, meter: Meter) -> None:
    """Distances to weights, the file of weights, and what a person looks at."""
    with meter.stage("weigh"):
        distance: F64 = np.empty(job.setup.prompts)
        for start, near in job.kept("distances"):
            distance[start : start + len(near)] = density.mean_distance(near)
        lone = np.isnan(distance)  # no neighbour at all in the lists that were probed
        if lone.any():
            distance[lone] = np.nanmax(distance) if not lone.all() else 1.0
        chances = density.weights(distance, job.request.favour)
        prompts = job.prompts()
        keys = pa.chunked_array(
            [
                pa.array([key_of(prompt) for prompt in prompts.read(start, start + KEYS)])
                for start in range(0, len(prompts), KEYS)
            ]
        )
        origin = provenance(job.request, job.setup, job.lists, job.probes)
        table = pa.table(
            {
                "place": pa.array(np.arange(len(chances))),
                "key": keys,
                "distance": pa.array(distance),
                "weight": pa.array(chances),
            }
        )
        whole(job.folder / WEIGHTS, table.replace_schema_metadata(metadata(origin)))
        _summary(job, distance, chances, int(lone.sum()), origin.model_dump())


def _summary(job: Job, distance: F64, chances: F64, lone: int, origin: dict[str, Any]) -> None:
    counts, edges = np.histogram(distance, bins=min(BINS, max(1, len(distance))))
    order = np.argsort(distance, kind="stable")
    few = min(EXAMPLES, len(order) // 2)
    prompts = job.prompts()

    def examples(places: Any) -> list[dict[str, Any]]:
        return [
            {
                "place": int(place),
                "text": shown(text_of(next(iter(prompts.read(place, place + 1)))), 500),
                "distance": float(distance[place]),
                "weight": float(chances[place]),
            }
            for place in places.tolist()
        ]

    recall = None
    with suppress(FileNotFoundError):
        recall = json.loads((job.folder / RECALL).read_text("utf-8"))
    notes = []
    if lone:
        notes.append(
            f"{lone:,} prompts found no neighbour in the lists that were probed and count as the "
            "rarest; raise probes."
        )
    found = {
        "provenance": origin,
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "rarest": examples(order[::-1][:few]),
        "commonest": examples(order[:few]),
        "recall": recall,
        "notes": notes,
    }
    write_whole(job.folder / "found.json", json.dumps(found))
