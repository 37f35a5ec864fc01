"""The models of a run, built from their configs: policy, reference, critic, reward model.

Weights are whatever the device makes of ``empty``: memory does not depend on their values, and
a trainer loads its own over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from functools import partial
from typing import Any, TypeVar

import torch
from torch import nn

from planner.formulas.lora import adapted_names, lora_weights
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.setup.setup import setup_of
from planner.steps import anatomy
from planner.steps.stage import DTYPES, Stage

LISTS = ("layers", "h")
"""What transformers' decoders call the list of their layers."""

NORMS = ("norm", "ln_f", "final_layer_norm")
"""What they call the norm after them."""

Part = TypeVar("Part", bound=nn.Module)


class Root(nn.Module):
    """What stands around a role's model: runs work on it inside one forward call.

    FSDP gathers the weights outside the layers when its root's forward begins, so everything
    that needs them, the loss included, happens inside. A critic that shares the policy's body is
    its ``score`` alone.
    """

    def __init__(self, model: nn.Module, score: nn.Module | None = None) -> None:
        super().__init__()
        self.model = model
        self.score = score

    def forward(self, work: Callable[[nn.Module], Any]) -> Any:
        """The result of ``work`` on the model."""
        return work(self.model)


class ScoreModel(nn.Module):
    """A decoder body with one number per token: a critic, or a reward model."""

    def __init__(self, body: nn.Module, hidden: int, *, bias: bool) -> None:
        super().__init__()
        self.body = body
        self.score = nn.Linear(hidden, 1, bias=bias)

    def forward(self, **inputs: Any) -> torch.Tensor:
        """Scores [rows, tokens] of ``input_ids`` or ``inputs_embeds``."""
        hidden = self.body(use_cache=False, **inputs).last_hidden_state
        return self.score(hidden).squeeze(-1)  # type: ignore[no-any-return]


class HeadModel(nn.Module):
    """A frozen language-model head alone: a reference whose hidden states are cached."""

    def __init__(self, hidden: int, vocab: int, *, bias: bool) -> None:
        super().__init__()
        self.lm_head = nn.Linear(hidden, vocab, bias=bias)

    def get_output_embeddings(self) -> nn.Module:
        """The head, as transformers' models give theirs."""
        return self.lm_head


def settings_of(config: Mapping[str, Any], attention: str) -> Any:
    """Transformers' config object of a config.json; never runs code that comes with it."""
    import transformers

    # transformers writes into what it is handed: rope_theta into the catalog's rope_scaling.
    values = deepcopy({key: value for key, value in config.items() if key != "quantization_config"})
    if values.get("head_dim", 0) is None:
        # Some model files take a head_dim that is there, even None, for a size.
        del values["head_dim"]
    whole = transformers.AutoConfig.for_model(**values)
    # Of a multimodal config the language model's part, if that is a class of its own.
    text = whole.get_text_config(decoder=True)
    apart = type(text) is not type(whole) and type(text) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    settings = text if apart else whole
    if getattr(settings, "is_decoder", None) is False:
        settings.is_decoder = True  # BERT and its like attend to what comes later, unless told
    settings.use_cache = False
    settings._attn_implementation = attention
    return settings


def language_model(stage: Stage, settings: Any, dtype: torch.dtype) -> nn.Module:
    """A causal language model with empty weights on the stage's device."""
    import transformers

    with _empty(stage, dtype):
        model: Any = transformers.AutoModelForCausalLM.from_config(settings, dtype=dtype)  # type: ignore[no-untyped-call]
        # Skipped where nothing is initialised.
        model.tie_weights()
    return model  # type: ignore[no-any-return]


def value_head(stage: Stage, settings: Any, dtype: torch.dtype) -> nn.Module:
    """What a critic has for itself when it shares the policy's body, with empty weights."""
    with _empty(stage, dtype):
        return nn.Linear(settings.hidden_size, 1, bias=True)


def head_model(stage: Stage, settings: Any, like: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The head of a model like ``like`` with empty weights, and nothing else of it."""
    biased = getattr(head(like), "bias", None) is not None
    with _empty(stage, dtype):
        return HeadModel(settings.hidden_size, settings.vocab_size, bias=biased)


def score_model(stage: Stage, settings: Any, dtype: torch.dtype, *, bias: bool) -> ScoreModel:
    """A critic (token scores with bias) or reward model (without) with empty weights."""
    import transformers

    with _empty(stage, dtype):
        body = transformers.AutoModel.from_config(settings, dtype=dtype)  # type: ignore[no-untyped-call]
        return ScoreModel(body, settings.hidden_size, bias=bias)


@contextmanager
def _empty(stage: Stage, dtype: torch.dtype) -> Any:
    """On the stage's device, in a dtype; random values only where there are values."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(stage.device):
            yield
    finally:
        torch.set_default_dtype(before)


ADAPTER, REFERENCE = "default", "reference"
"""What peft calls an adapter that nobody named, and what the second one is called here."""


def adapted(model: nn.Module, plan: Plan, *, frozen: bool = False) -> nn.Module:
    """The model with peft's LoRA adapters; fp32 ones on a half-precision base when so planned.

    ``frozen`` adds a second one that never trains.
    """
    targets = tuple(name.strip() for name in plan.lora_targets.split(","))
    # A plan names the work; what a family calls the module that does it may be another name.
    modules, tensors = adapted_names(lora_weights(facts_of(plan).policy, targets))
    names = (ADAPTER, REFERENCE) if frozen else (ADAPTER,)
    fp32, dropout = plan.master_dtype == "fp32", plan.lora_dropout
    found = with_adapters(
        model, modules, plan.lora_rank, tensors=tensors, dropout=dropout, fp32=fp32, names=names
    )
    for name, weight in found.named_parameters() if frozen else ():
        if f".{REFERENCE}." in name:
            weight.requires_grad_(False)
    return found


def with_adapters(
    model: nn.Module,
    modules: Sequence[str],
    rank: int,
    *,
    tensors: Sequence[str] = (),
    dropout: float = 0.0,
    fp32: bool,
    names: Sequence[str] = (ADAPTER,),
) -> nn.Module:
    """The model with one of peft's LoRA adapters for each of ``names``.

    ``modules`` are linear layers by the end of their path, ``tensors`` those of all experts.
    """
    import warnings

    import peft

    with warnings.catch_warnings():
        # peft asks for a property that transformers renamed, and says that it sets fan_in_fan_out.
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", UserWarning)
        config = peft.LoraConfig(
            r=rank,
            target_modules=list(modules),
            target_parameters=list(tensors) or None,
            lora_dropout=dropout,
            task_type=None if isinstance(model, ScoreModel) else "CAUSAL_LM",
        )
        found = peft.get_peft_model(model, config, names[0], autocast_adapter_dtype=fp32)
        # peft moves the first adapter to its layer's device, and another one only between two
        # that have values.
        with torch.device(next(model.parameters()).device):
            for name in names[1:]:
                found.add_adapter(name, config, autocast_adapter_dtype=fp32)
    return found


def causal(model: nn.Module) -> Any:
    """The causal language model (or score model) inside all wrapping."""
    inner = model.model if isinstance(model, Root) else model
    return inner.get_base_model() if hasattr(inner, "get_base_model") else inner  # type: ignore[operator]


def body(model: nn.Module) -> Any:
    """The decoder without its head."""
    inner = causal(model)
    if isinstance(inner, ScoreModel):
        return inner.body
    return anatomy.body_of(inner)


def head(model: nn.Module) -> Any:
    """The module that maps hidden states to the vocabulary."""
    return causal(model).get_output_embeddings()


def layers(model: nn.Module) -> nn.ModuleList:
    """The list of decoder layers."""
    if isinstance(causal(model), HeadModel):
        return nn.ModuleList()
    decoder = body(model)
    named = (getattr(decoder, name, None) for name in LISTS)
    found = next((each for each in named if isinstance(each, nn.ModuleList)), None)
    return anatomy.layers_of(decoder) if found is None else found


def hidden_states(model: nn.Module, inputs: Mapping[str, Any]) -> torch.Tensor:
    """What the head is given of rows [rows, tokens]: [rows, tokens, hidden]."""
    return anatomy.hidden_states(causal(model), body(model), inputs)


def final_norm(model: nn.Module) -> nn.Module:
    """The norm between the last layer and the head."""
    return _part(model, NORMS, nn.Module, "final norm")


def _part(model: nn.Module, names: tuple[str, ...], kind: type[Part], what: str) -> Part:
    inner = body(model)
    for name in names:
        found = getattr(inner, name, None)
        if isinstance(found, kind):
            return found
    raise ValueError(
        f"model: {type(inner).__name__} keeps its {what} under a name that is not known; "
        f"known are {', '.join(names)}."
    )


def softcap(model: nn.Module) -> float:
    """Gemma 2's squashing of the logits; 0 for models without."""
    return float(getattr(causal(model).config, "final_logit_softcapping", None) or 0.0)


@contextmanager
def without_adapters(model: nn.Module) -> Iterator[None]:
    """The base model alone answers inside.

    peft's own ``disable_adapter`` also freezes the adapters that are registered and thaws those
    registered afterwards. Under FSDP these can be the gathered weights first and the shards then,
    which leaves adapters that never train (counted in dry runs: no gradient, no state).
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    adapted = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    if not adapted:
        raise ValueError("finetuning: this model has no adapters to disable; set it to lora.")
    for module in adapted:
        module._disable_adapters = True
    try:
        yield
    finally:
        for module in adapted:
            module._disable_adapters = False


@contextmanager
def as_reference(model: nn.Module, form: str) -> Iterator[None]:
    """The policy's model answers for the reference inside, as ``form`` of a plan says."""
    if form == "adapter-disabled":
        with without_adapters(model):
            yield
        return
    from peft.tuners.tuners_utils import BaseTunerLayer

    adapted = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    before = [module._active_adapter for module in adapted]
    for module in adapted:
        module._active_adapter = [REFERENCE]
    try:
        yield
    finally:
        for module, active in zip(adapted, before, strict=True):
            module._active_adapter = active


def checkpointed(model: nn.Module, saving: Callable[[], Any] = nullcontext) -> None:
    """Recompute layers in the backward, from the first step on.

    transformers checkpoints in training mode only, so a model that ``from_pretrained`` left in
    evaluation mode would not: the mode is set here too. ``saving`` makes the context that layers
    keep their inputs in, which alone are offloaded where a plan offloads activations.
    """
    model.train()
    inner = causal(model)
    target = inner.body if isinstance(inner, ScoreModel) else inner
    target.activation_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
    if not any(weight.requires_grad for weight in body(model).get_input_embeddings().parameters()):
        # Checkpoints of a frozen layer's input would have no gradient to pass on.
        target.enable_input_require_grads()  # type: ignore[operator]
    if saving is not nullcontext:
        for layer in layers(model):
            layer._gradient_checkpointing_func = partial(  # type: ignore[assignment]
                _inside,
                saving,
                layer._gradient_checkpointing_func,  # type: ignore[arg-type]
            )


def _inside(saving: Callable[[], Any], checkpoint: Callable[..., Any], *given: Any) -> Any:
    with saving():
        return checkpoint(*given)


def dtype_of(plan: Plan) -> torch.dtype:
    """What the policy's weights are kept in."""
    return DTYPES[setup_of(plan).models[0].stored]
