"""The file of weights: what it was made of, and whether it is stale. PyArrow on first use.

``weights.parquet`` has a row a prompt, in the file's order: ``place``, ``key`` (see
:func:`planner.sampling.ask.prompts.key_of`), ``distance`` (mean to the neighbours) and ``weight``
(its chance; all sum to 1). Its schema's metadata holds the provenance under ``headroom``.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from planner.sampling.ask.request import SamplingRequest
from planner.sampling.ask.result import Provenance
from planner.sampling.ask.setup import Setup
from planner.trial.ask.result import now

KEY = b"headroom"
COMPARED = {
    "identity": "the model (its {key}) is another: weights of {old}, now {new}",
    "prompts_sha256": "the prompts are others: weights of a file {old:.12}…, now {new:.12}…",
    "prompts": "weights of {old} prompts, now {new}",
    "pooling": "pooled otherwise: weights of {old}, asked for {new}",
    "width": "embeddings have another width: {old}, now {new}",
    "dtype": "embeddings were kept in {old}, asked for {new}",
    "model_dtype": "the model ran in {old}, asked for {new}",
    "prompt_tokens": "prompts were cut at {old} tokens, asked for {new}",
    "neighbours": "of {old} neighbours, asked for {new}",
    "index": "found by {old}, asked for {new}",
    "lists": "the index had {old} lists, asked for {new}",
    "probes": "{old} lists were probed, asked for {new}",
    "favour": "{old} prompts are favoured, asked for {new}",
}
"""Fields in which weights have to agree, and the sentence where they do not."""


def provenance(request: SamplingRequest, setup: Setup, lists: int, probes: int) -> Provenance:
    """What weights of a run are made of."""
    ivf = request.index == "faiss-ivf"
    return Provenance(
        model=setup.model,
        identity=setup.identity,
        prompts_sha256=setup.prompts_sha256,
        prompts=setup.prompts,
        pooling="mean logits" if request.embedding == "logits" else "mean hidden states",
        width=setup.width,
        dtype=request.dtype,
        model_dtype=request.model_dtype,
        prompt_tokens=request.prompt_tokens,
        neighbours=request.neighbours,
        index=request.index,
        lists=lists if ivf else 0,
        probes=probes if ivf else 0,
        favour=request.favour,
        created=now(),
    )


def metadata(made: Provenance) -> dict[bytes, bytes]:
    """A Parquet schema's metadata."""
    return {KEY: made.model_dump_json().encode("utf-8")}


def read_provenance(path: Path) -> Provenance:
    """What a file of weights was made of.

    Raises:
        ValueError: when it is no such file.
    """
    import pyarrow.parquet as pq
    from pyarrow.lib import ArrowException

    try:
        found = (pq.read_schema(path).metadata or {}).get(KEY, b"")
        return Provenance.model_validate_json(found)
    except (OSError, ArrowException, ValidationError):
        raise ValueError(f"weights: {path.name} is no file of weights of ours.") from None


def stale(made: Provenance, wanted: Provenance) -> tuple[str, ...]:
    """Why weights do not belong to what is wanted now; empty when they do.

    Where the identity is the same the model is, whatever it is called; the date says nothing.
    """
    found = []
    for field, sentence in COMPARED.items():
        old, new = getattr(made, field), getattr(wanted, field)
        if old != new:
            key = "revision" if str(old).startswith("revision") else "weights"
            found.append(sentence.format(old=old, new=new, key=key))
    return tuple(found)
