"""What a run of density-aware sampling is asked, as arguments and as a file. No torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.jobs.strict import JobRequest, in_a_sentence
from planner.sampling.plan import SamplingPlan, try_sampling_plan
from planner.trial.ask.request import Place

RECALL_PROMPTS = 1000
PLAN_FIELDS = (
    "embedding", "dtype", "model_dtype", "neighbours", "index", "lists", "probes",
    "training_prompts", "mode", "prompt_tokens", "batch_size", "chunk_prompts", "favour",
)  # fmt: skip
"""What a run has of a plan."""


class SamplingRequest(JobRequest):
    """One run. Paths are on the machine that runs it; a number of 0 is derived."""

    prompts: Place
    """A file of JSON lines, each with a ``prompt``."""
    model: Place
    """A local folder with safetensors, or a Hub id."""
    revision: Annotated[str, Field(max_length=100)] = ""
    embedding: Literal["logits", "hidden"] = "hidden"
    dtype: Literal["fp32", "fp16"] = "fp32"
    """What embeddings are stored in."""
    model_dtype: Literal["fp32", "bf16", "fp16"] = "fp32"
    neighbours: Annotated[int, Field(ge=1, le=1024)] = 10
    index: Literal["exact", "faiss-flat", "faiss-ivf"] = "exact"
    lists: Annotated[int, Field(ge=0, le=2**24)] = 0
    probes: Annotated[int, Field(ge=0, le=2**24)] = 0
    training_prompts: Annotated[int, Field(ge=0, le=10**9)] = 0
    mode: Literal["online", "offline", "streaming"] = "offline"
    prompt_tokens: Annotated[int, Field(ge=1, le=4_194_304)] = 512
    batch_size: Annotated[int, Field(ge=1, le=65_536)] = 8
    chunk_prompts: Annotated[int, Field(ge=0, le=10**8)] = 0
    favour: Literal["rare", "common"] = "rare"
    recall_prompts: Annotated[int, Field(ge=0, le=100_000)] = RECALL_PROMPTS
    """Prompts whose exact neighbours an IVF index is compared with; 0 compares none."""
    calibration_seconds: Annotated[float, Field(ge=0.1, le=600, allow_inf_nan=False)] = 10.0
    ray: Annotated[str, Field(max_length=200, pattern=r"^[\w.:\-/\[\]]*$")] = ""
    """A running Ray cluster's address, ``auto`` for the one of this node, ``local`` for a new one;
    empty computes in processes of this machine."""

    def planned(self, prompts: int, width: int, cores: int) -> SamplingPlan:
        """The plan of this run, once its prompts are counted and its model's width is read.

        Raises:
            ValueError: a sentence that names the field.
        """
        values = {field: getattr(self, field) for field in PLAN_FIELDS}
        found, problems = try_sampling_plan(
            {**values, "prompts": prompts, "dimensions": width, "cores": cores}
        )
        if found is None:
            said = problems[0]
            raise ValueError(f"{said.field}: {said.sentence}")
        return found


def request_of(**choices: object) -> SamplingRequest:
    """A request.

    Raises:
        ValueError: a sentence that names the field.
    """
    with in_a_sentence("request"):
        return SamplingRequest.model_validate(choices)
