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

Bytes = Annotated[int, Field(ge=0, le=2**53)]


class SamplingPlan(BaseModel):
    """Prompts to weights: how they are embedded, searched and kept, and on what.

    ``SamplingPlan(prompts=28_000, dimensions=50_304)`` is enough.

    Raises:
        pydantic.ValidationError: with one sentence per bad field. :func:`try_sampling_plan` gives
            the same as plain values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    prompts: Annotated[int, Field(ge=2, le=10**9)] = Field(28_000, description="Prompts to weigh.")
    model: Annotated[str, Field(max_length=160, pattern=r"^[\w.\-/]*$")] = Field(
        "", description="Hub id of the model that embeds; empty where only dimensions are known."
    )
    embedding: Literal["logits", "hidden"] = Field(
        "hidden", description="Mean over a prompt's tokens of its logits, or of last hidden states."
    )
    dimensions: Annotated[int, Field(ge=0, le=2**20)] = Field(
        0, description="Values of one embedding; 0 is the model's vocabulary or hidden size."
    )
    dtype: Literal["fp32", "fp16"] = Field("fp32", description="What embeddings are stored in.")
    model_dtype: Literal["fp32", "bf16", "fp16"] = Field(
        "fp32", description="What the model's weights and forward are in."
    )
    assembly: Literal["in-place", "concatenate"] = Field(
        "in-place",
        description="Embeddings written into one array and normalised there, or, as the document's "
        "code does it, concatenated and normalised into copies.",
    )
    neighbours: Annotated[int, Field(ge=1, le=1024)] = Field(
        10, description="Nearest neighbours of each prompt, itself excluded."
    )
    index: Literal["exact", "faiss-flat", "faiss-ivf"] = Field(
        "exact", description="Brute force of scikit-learn, or an index of FAISS."
    )
    lists: Annotated[int, Field(ge=0, le=2**24)] = Field(
        0, description="Lists of an IVF index; 0 is four times the root of the prompts."
    )
    probes: Annotated[int, Field(ge=0, le=2**24)] = Field(
        0, description="Lists that each search visits; 0 is the root of the lists."
    )
    training_prompts: Annotated[int, Field(ge=0, le=10**9)] = Field(
        0, description="Prompts that an IVF index learns its lists from; 0 is 64 for each list."
    )
    mode: Literal["online", "offline", "streaming"] = Field(
        "online",
        description="In memory as training starts; computed once to disk, then loaded; or Parquet "
        "chunks, memory-mapped and never whole in memory.",
    )
    prompt_tokens: Annotated[int, Field(ge=1, le=4_194_304)] = Field(
        512, description="Longest prompt."
    )
    batch_size: Annotated[int, Field(ge=1, le=65_536)] = Field(
        8, description="Prompts of one forward."
    )
    chunk_prompts: Annotated[int, Field(ge=0, le=10**8)] = Field(
        0, description="Prompts of one Parquet chunk; 0 is as many as 64 MiB hold."
    )
    favour: Literal["rare", "common"] = Field(
        "rare", description="Which prompts are drawn more often: those far from, or near to others."
    )
    host_ram: Bytes = Field(0, description="Host RAM in bytes; 0 is unknown.")
    disk: Bytes = Field(0, description="Free disk in bytes; 0 is unknown.")
    cores: Annotated[int, Field(ge=1, le=4096)] = Field(8, description="CPU cores.")
    device: Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9\-]+$")] = Field(
        "cpu", description="What the model runs on: cpu, or a card of the catalog."
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
    if info is None:
        return "Leave it out."
    if choices(field):
        kind = f"Choose {' or '.join(choices(field))}"
    elif info.annotation is int:
        kind = "Give a whole number within its limits"
    else:
        kind = "Give a name of letters, digits and . _ / -"
    return f"{kind}. It means: {info.description}"


def try_sampling_plan(
    values: Mapping[str, Any],
) -> tuple[SamplingPlan | None, tuple[Problem, ...]]:
    """The plan, or None and what is wrong with the values. Never raises for bad values."""
    try:
        return SamplingPlan(**values), ()
    except ValidationError as error:
        return None, of_error(error, "a sampling plan", remedy)
