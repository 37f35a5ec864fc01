"""Provenance of a file of weights, by which the training script refuses stale weights.

``weights.parquet`` has a row a prompt, in the file's order: ``place``, ``key`` (see
:func:`planner.sampling.ask.prompts.key_of`), ``distance`` (mean to the neighbours) and ``weight``
(its chance; all sum to 1). Its schema's metadata holds the provenance under ``headroom``.
"""

from __future__ import annotations

from planner.sampling.ask.request import SamplingRequest
from planner.sampling.ask.result import Provenance
from planner.sampling.ask.setup import Setup
from planner.trial.ask.result import now

KEY = b"headroom"


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
