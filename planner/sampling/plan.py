"""What a person chooses about density-aware sampling: frozen, validated, comparable, hashable.

Its field names are the keys of a sampling page's link and are never renamed. What cannot be is
refused by :mod:`planner.sampling.rules`, with the field and the fix.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from planner.problem import Problem, of_error, refuse
from planner.sampling.rules import problems_of
from planner.values.field import remedy_of

Bytes = Annotated[int, Field(ge=0, le=2**53)]


class SamplingPlan(BaseModel):
    """Prompts to weights: how they are embedded, searched and kept, and on what.

    ``SamplingPlan(prompts=28_000, dimensions=50_304)`` is enough.

    Raises:
        pydantic.ValidationError: with one sentence per bad field. :func:`try_sampling_plan` gives
            the same as plain values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    prompts: Annotated[int, Field(ge=2, le=10**9)] = Field(28_000, description="Number of prompts.")
    model: Annotated[str, Field(max_length=160, pattern=r"^[\w.\-/]*$")] = Field(
        "", description="Hub id of the embedding model; empty if only the dimensions are known."
    )
    embedding: Literal["logits", "hidden"] = Field(
        "hidden",
        description="An embedding is the mean over a prompt's tokens of the logits, or of the last "
        "hidden states.",
    )
    dimensions: Annotated[int, Field(ge=0, le=2**20)] = Field(
        0, description="Length of an embedding; 0 takes the model's vocabulary or hidden size."
    )
    dtype: Literal["fp32", "fp16"] = Field("fp32", description="Dtype of stored embeddings.")
    model_dtype: Literal["fp32", "bf16", "fp16"] = Field(
        "fp32", description="Dtype of the model's weights and forward pass."
    )
    assembly: Literal["in-place", "concatenate"] = Field(
        "in-place",
        description="In place: embeddings are written into one array and normalised there. As in "
        "document 003's code: embeddings are concatenated and normalised into copies.",
    )
    neighbours: Annotated[int, Field(ge=1, le=1024)] = Field(
        10, description="Number of nearest neighbours of each prompt, without the prompt itself."
    )
    index: Literal["exact", "faiss-flat", "faiss-ivf"] = Field(
        "exact", description="Brute-force search with scikit-learn, or a FAISS index."
    )
    lists: Annotated[int, Field(ge=0, le=2**24)] = Field(
        0, description="Number of lists in an IVF index; 0 takes four times the square root of the "
        "prompts."
    )
    probes: Annotated[int, Field(ge=0, le=2**24)] = Field(
        0, description="Number of lists that each search visits; 0 takes the square root of the "
        "lists."
    )
    training_prompts: Annotated[int, Field(ge=0, le=10**9)] = Field(
        0, description="Number of prompts that train an IVF index; 0 takes 64 for each list."
    )
    mode: Literal["online", "offline", "streaming"] = Field(
        "online",
        description="Online: computed in memory as training starts. Offline: computed once, saved "
        "and loaded. Streaming: memory-mapped Parquet chunks, never all in memory.",
    )
    prompt_tokens: Annotated[int, Field(ge=1, le=4_194_304)] = Field(
        512, description="Longest prompt."
    )
    batch_size: Annotated[int, Field(ge=1, le=65_536)] = Field(
        8, description="Prompts per forward pass."
    )
    chunk_prompts: Annotated[int, Field(ge=0, le=10**8)] = Field(
        0, description="Prompts per Parquet chunk; 0 takes as many as fit in 64 MiB."
    )
    favour: Literal["rare", "common"] = Field(
        "rare", description="Prompts to draw more often: rare prompts are far from all others, "
        "common prompts are near many."
    )
    host_ram: Bytes = Field(0, description="Host RAM in bytes; 0 means unknown.")
    disk: Bytes = Field(0, description="Free disk in bytes; 0 means unknown.")
    cores: Annotated[int, Field(ge=1, le=4096)] = Field(8, description="CPU cores.")
    device: Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9\-]+$")] = Field(
        "cpu", description="Where the model runs: the CPU, or a GPU of the catalog."
    )

    @model_validator(mode="after")
    def _check(self) -> SamplingPlan:
        refuse(problems_of(self))
        return self

    def changed(self, **changes: Any) -> SamplingPlan:
        """This plan with other values in some fields, validated anew."""
        return SamplingPlan(**{**self.model_dump(), **changes})


FIELDS: tuple[str, ...] = tuple(SamplingPlan.model_fields)
"""Every field's name, in the order links and pages use."""


@cache
def choices(field: str) -> tuple[str, ...]:
    """The values a field of choices can have; empty for other fields."""
    annotation = SamplingPlan.model_fields[field].annotation
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def remedy(field: str) -> str:
    """What to do about a value of the wrong kind or size."""
    info = SamplingPlan.model_fields.get(field)
    named = " or ".join(choices(field)) if info else ""
    return remedy_of(info, f"Choose {named}" if named else "")


def try_sampling_plan(
    values: Mapping[str, Any],
) -> tuple[SamplingPlan | None, tuple[Problem, ...]]:
    """The plan, or None and what is wrong with the values. Never raises for bad values."""
    try:
        return SamplingPlan(**values), ()
    except ValidationError as error:
        return None, of_error(error, "a sampling plan", remedy)
