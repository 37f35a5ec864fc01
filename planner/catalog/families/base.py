"""What the schemas of all families share: limits on sizes, and the Llama-like fields.

Each family's config.json is read by a schema of ours. Fields carry the names and the
defaults of the transformers 5.23.0 config class, since that is what training code
would fill in; sizes that decide the memory have no default and must be stated.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from planner.catalog.architecture import Architecture

MAX_PROJECTION = 1 << 20

Hidden = Annotated[int, Field(ge=8, le=131_072)]
Intermediate = Annotated[int, Field(ge=8, le=MAX_PROJECTION)]
Layers = Annotated[int, Field(ge=1, le=1000)]
Heads = Annotated[int, Field(ge=1, le=4096)]
HeadDim = Annotated[int, Field(ge=2, le=8192)]
Vocab = Annotated[int, Field(ge=2, le=1 << 21)]
Positions = Annotated[int, Field(ge=1, le=1 << 26)]
Window = Annotated[int, Field(ge=1, le=1 << 26)]
Softcap = Annotated[float, Field(ge=0, le=1e6)]
Dropout = Annotated[float, Field(ge=0, lt=1)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,32}$")]
LayerType = Literal["full_attention", "sliding_attention"]
LayerTypes = Annotated[list[LayerType], Field(max_length=1000)]

ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_new",
    "gelu_pytorch_tanh": "gelu_pytorch_tanh",
}
"""Activations whose saved tensors are known; ``swish`` is the same module as ``silu``."""


def wrong(field: str, message: str) -> PydanticCustomError:
    """An error about ``field`` that depends on other fields."""
    return PydanticCustomError("config", "{field}: {message}", {"field": field, "message": message})


class FamilyConfig(BaseModel):
    """A config.json of one ``model_type``; other keys are ignored, as transformers does."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)

    pad_token_id: int | None = None
    """Which row of the embedding is never trained; where it is not stated, transformers has a
    default of its own for each family."""

    @model_validator(mode="after")
    def _pad_token_fits(self) -> Self:
        rows: int = getattr(self, "vocab_size", 0)
        if self.pad_token_id is not None and not -rows <= self.pad_token_id < rows:
            raise wrong("pad_token_id", f"{self.pad_token_id} is no row of vocab_size {rows}")
        return self

    def canonical(self) -> dict[str, Any]:
        """Every field as JSON has it, so that a default which changes changes no link."""
        stated = "pad_token_id" in self.model_fields_set
        return self.model_dump(mode="json", exclude=None if stated else {"pad_token_id"})

    def architecture(self) -> Architecture:
        """The dimensions and switches that the formulas need."""
        raise NotImplementedError

    def underived(self) -> str:
        """Why the formulas do not cover this config; empty when they do."""
        return ""


class RotaryConfig(FamilyConfig):
    """Llama and everything that keeps its field names."""

    allow_partial_rotary: ClassVar[bool] = False

    hidden_size: Hidden
    intermediate_size: Intermediate
    num_hidden_layers: Layers
    num_attention_heads: Heads
    num_key_value_heads: Heads | None = None
    head_dim: HeadDim | None = None
    vocab_size: Vocab
    hidden_act: Name = "silu"
    max_position_embeddings: Positions
    tie_word_embeddings: bool = False
    attention_dropout: Dropout | None = 0.0
    partial_rotary_factor: Fraction | None = None

    @model_validator(mode="before")
    @classmethod
    def _hoist_partial_rotary(cls, data: Any) -> Any:
        """Newer configs keep ``partial_rotary_factor`` among the RoPE parameters."""
        if isinstance(data, dict) and "partial_rotary_factor" not in data:
            for holder in ("rope_scaling", "rope_parameters"):
                nested = data.get(holder)
                if isinstance(nested, dict) and "partial_rotary_factor" in nested:
                    return {
                        **data,
                        "partial_rotary_factor": nested["partial_rotary_factor"],
                    }
        return data

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        heads, kv_heads = self.num_attention_heads, self.kv_heads
        if heads % kv_heads:
            raise wrong(
                "num_key_value_heads",
                f"{kv_heads} does not divide num_attention_heads {heads}",
            )
        if self.head_dim is None and self.hidden_size % heads:
            raise wrong(
                "num_attention_heads",
                f"{heads} does not divide hidden_size {self.hidden_size} and head_dim is missing",
            )
        if heads * self.dim > MAX_PROJECTION:
            raise wrong(
                "head_dim",
                f"{heads} heads of {self.dim} are more than {MAX_PROJECTION} in all",
            )
        if self.rotary_dim % 2 or self.rotary_dim == 0:
            raise wrong(
                "head_dim",
                f"rotary embeddings need an even size, not {self.rotary_dim}",
            )
        return self

    def canonical(self) -> dict[str, Any]:
        """A part of null in full, since transformers multiplies by it where it has the setting."""
        written = super().canonical()
        if self.allow_partial_rotary and self.partial_rotary_factor is None:
            written["partial_rotary_factor"] = 1.0
        return written

    @property
    def kv_heads(self) -> int:
        """Key/value heads; as many as query heads when not stated."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def dim(self) -> int:
        """Size of one head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def rotary_dim(self) -> int:
        """Rotated part of a head."""
        if not self.allow_partial_rotary:
            return self.dim
        return int(self.dim * (self.partial_rotary_factor or 1.0))

    @property
    def activation(self) -> str:
        """Hidden activation as the config names it."""
        return self.hidden_act

    @property
    def dropouts(self) -> tuple[str, ...]:
        """Names of the dropout fields that the family's modules read."""
        return ("attention_dropout",)

    def underived(self) -> str:
        """Dropout and unusual activations change what autograd saves."""
        for name in self.dropouts:
            if getattr(self, name):
                return f"{name} above 0 is not derived for {self.family}; set it to 0"
        if self.activation not in ACTIVATIONS:
            return f"hidden activation {self.activation!r} has no derived activation sum"
        if not self.allow_partial_rotary and self.partial_rotary_factor not in (
            None,
            1.0,
        ):
            return f"partial_rotary_factor is not a setting of {self.family} in transformers"
        return ""

    @property
    def family(self) -> str:
        """The config's ``model_type``."""
        return str(getattr(self, "model_type", ""))

    def stated(self, setting: str, otherwise: Any = None) -> Any:
        """A setting that only some families' configs have."""
        return getattr(self, setting, otherwise)

    @property
    def window(self) -> int:
        """Tokens that a sliding layer attends to; 0 where the config lets none slide."""
        used = self.stated("use_sliding_window", True)
        return (self.stated("sliding_window") or 0) if used else 0

    def slides(self, layer: int) -> bool:
        """Whether a layer slides by the config class's own rule, without ``layer_types``."""
        return True

    @property
    def sliding_layers(self) -> int:
        """How many layers slide."""
        if not self.window:
            return 0
        types = self.stated("layer_types")
        if types is not None:
            return int(types.count("sliding_attention"))
        return sum(map(self.slides, range(self.num_hidden_layers)))

    @model_validator(mode="after")
    def _types_fit(self) -> Self:
        types, layers = self.stated("layer_types"), self.num_hidden_layers
        if types is not None and len(types) != layers:
            raise wrong("layer_types", f"{len(types)} entries for {layers} num_hidden_layers")
        return self

    def switches(self) -> dict[str, Any]:
        """What sets the family apart from Llama, in an architecture's fields."""
        return {}

    def architecture(self) -> Architecture:
        """The Llama-like architecture with this family's switches."""
        bias = self.stated("attention_bias", False)
        usual: dict[str, Any] = {
            "norm": "rmsnorm",
            "gated": True,
            "qkv_bias": bias,
            "o_bias": bias,
            "mlp_bias": self.stated("mlp_bias", False),
            "sliding_window": self.window if self.sliding_layers else 0,
            "sliding_layers": self.sliding_layers,
        }
        return Architecture(
            family=self.family,
            hidden=self.hidden_size,
            layers=self.num_hidden_layers,
            intermediate=self.intermediate_size,
            heads=self.num_attention_heads,
            kv_heads=self.kv_heads,
            head_dim=self.dim,
            vocab=self.vocab_size,
            max_positions=self.max_position_embeddings,
            tied=self.tie_word_embeddings,
            activation=ACTIVATIONS.get(self.activation, self.activation),
            rotary_dim=self.rotary_dim,
            **{**usual, **self.switches()},
        )


def one_sentence(error: ValidationError) -> str:
    """The first problem of a config as one sentence that starts with ``config: field``."""
    first = error.errors(include_url=False)[0]
    rest = error.error_count() - 1
    more = f" ({rest} more)" if rest else ""
    if first["type"] == "config":
        return f"config: {first['msg']}{more}."
    field = ".".join(str(part) for part in first["loc"] if part not in ("int", "float", "str"))
    if first["type"] == "missing":
        return f"config: {field} is missing and decides the memory{more}."
    shown = repr(first["input"])
    shown = shown if len(shown) <= 40 else shown[:37] + "..."
    return f"config: {field} is {shown}: {first['msg'][0].lower()}{first['msg'][1:]}{more}."
