"""The shape of ``models.json`` and ``gpus.json``: what a row must say, and its source.

Rows are data: adding a model or a card is adding a row. Imports
pydantic and nothing of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Shape = TypeVar("Shape", bound=BaseModel)
Value = TypeVar("Value")

Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(gt=0)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
HubId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.\-]*/[A-Za-z0-9][\w.\-]*$", max_length=160)]
GpuKey = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)]
Confidence = Literal["high", "medium", "low"]
Sources = Annotated[tuple[Text, ...], Field(min_length=1)]


class CatalogError(Exception):
    """A file of the catalog is damaged: about that file, and never about a plan."""


class Row(BaseModel):
    """Common rules: immutable, and a misspelt field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BuiltFacts(Row):
    """Switches read off the modules that transformers builds from the row's config."""

    head_dim: Positive | None
    """None where heads have no single size (multi-head latent attention)."""
    mla: bool
    """Multi-head latent attention (DeepSeek)."""
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    norm: Literal["RMSNorm", "LayerNorm"]
    gated_mlp: bool


class ModelAlias(Row):
    """Another Hub id with the same shapes; context length and RoPE may differ."""

    id: HubId
    config: dict[str, Any]
    """Fields known to differ from the row's config."""
    source: str
    """Where ``config`` comes from; empty when it is empty."""


class ModelRow(Row):
    """One model: the config that rebuilds it, its counts, and where they come from."""

    id: HubId
    name: Text
    aliases: tuple[ModelAlias, ...]
    on_hub: bool
    """False for a shape without published weights under this id."""
    example_files: Count = 0
    """Example files of RL frameworks that name it or an alias; the file says which and when."""
    config: dict[str, Any]
    params: Positive
    """Parameters of the rebuilt model, tied embeddings once."""
    params_active: Positive
    """All but the routed experts, plus the share of them that a token uses."""
    params_source: Text
    params_embedding: Positive
    params_lm_head_untied: Count
    params_routed_experts: Count
    routing_bias_buffer_elements: Count
    params_published: Positive | None
    params_published_hub_total: Positive | None
    params_published_rounded: Text | None
    params_published_source: Text
    reconciliation: str
    """How a published total that counts more than the decoder adds up."""
    match: Literal["exact", "exact-after-reconciliation", "rounded-only", "mismatch"]
    facts: BuiltFacts
    licence: Text
    licence_source: Text
    sources: Sources
    confidence: Confidence
    note: str
    date: Text
    """Day on which the figures were gathered."""


class ModelFile(Row):
    """``models.json``."""

    about: Text
    date: Text
    example_files: Text
    """What the rows' counts are of."""
    models: tuple[ModelRow, ...]


class DriverMemory(Row):
    """Total that the driver prints (``nvidia-smi``)."""

    bytes: Positive
    mib: Rate
    source: Text


class ObservedMemory(Row):
    """One total that torch was seen to report, in the unit it was printed in."""

    gib: Rate | None
    mib: Rate | None
    source: Text


class Multiprocessors(Row):
    """``multi_processor_count`` as the driver reports it."""

    count: Positive
    source: Text


class DenseTflops(Row):
    """Peak dense rates in TFLOP/s, fp32 accumulation; ``fp32`` without tensor cores."""

    bf16: Rate | None
    fp16: Rate | None
    fp32: Rate | None
    fp8: Rate | None


class ReachedTflops(Row):
    """What the largest products of torch reach on the card, in bf16 TFLOP/s."""

    value: Rate
    source: Text


class Interconnect(Row):
    """Links between the GPUs of a node, both directions added."""

    kind: Text
    gb_per_second_bidirectional: Rate | None


class Price(Row):
    """Indicative list price in USD per GPU and hour; a plan's own figure overrides it."""

    usd_per_hour_low: Rate
    usd_per_hour_high: Rate
    date: Text
    source: Text
    indicative: bool


class GpuRow(Row):
    """One accelerator as software sees it (one device, not one card or package)."""

    key: GpuKey
    name: Text
    vendor: Text
    architecture: Text
    compute_capability: Text | None
    multiprocessors: Multiprocessors | None = None
    """None where nobody was seen to print them."""
    memory_marketed_gb: Rate
    """The sticker's figure; never used to plan."""
    memory_driver: DriverMemory | None
    memory_torch_bytes: Positive | None
    """Smallest total torch was seen to report on Linux; None when nobody reported one."""
    memory_torch_observed: tuple[ObservedMemory, ...]
    bandwidth_gb_per_second: Rate
    dense_tflops: DenseTflops
    reached_bf16_tflops: ReachedTflops | None = None
    """None where nobody was seen to publish it."""
    interconnect: Interconnect
    pcie: Text | None
    gpus_per_node_usual: Annotated[tuple[Positive, ...], Field(min_length=1)]
    price: Price | None
    sources: Sources
    confidence: Confidence
    note: str
    date: Text


class GpuFile(Row):
    """``gpus.json``."""

    about: Text
    date: Text
    gpus: tuple[GpuRow, ...]


def read_rows(name: str, shape: type[Shape]) -> Shape:
    """A file of the catalog.

    Raises:
        CatalogError: naming the file, and the place in it.
    """
    try:
        return shape.model_validate_json((files("planner.catalog") / name).read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise CatalogError(f"{name}: {place}: {first['msg']}.") from None


def by_key(name: str, keyed: Iterable[tuple[str, Value]]) -> Mapping[str, Value]:
    """Rows by key.

    Raises:
        CatalogError: naming the file and the first key that stands twice.
    """
    found: dict[str, Value] = {}
    for key, row in keyed:
        if key in found:
            raise CatalogError(f"{name}: {key!r} stands twice; give each row a key of its own.")
        found[key] = row
    return MappingProxyType(found)
