"""What a model keeps outside its layers, checkpoints, masks, and autocast's copies."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from planner.formulas.activations.layers import layer_saved
from planner.formulas.activations.model import (
    autocast_weight_copies,
    checkpointed_saved,
    model_saved,
)
from real_layers import Births, Case, body_of, layers_of, saved_storages


def observed(case: Case) -> int:
    """Everything saved before, after and by more than one layer, head included."""
    found = saved_storages(case, head=True)
    return sum(size for place in ("before", "after", "shared") for size, _ in found.get(place, []))


@pytest.mark.parametrize(
    "case",
    [
        Case(family="llama"),
        Case(family="qwen3", precision="fp32", padded=True),
        Case(family="mistral", attention="eager"),
        Case(family="gemma3_text"),
        Case(family="phi3", precision="autocast-bf16"),
        Case(family="llama", precision="autocast-bf16", targets=("q_proj",)),
        Case(family="qwen2", targets=("v_proj",)),
        # In fp32: the CPU keeps LayerNorm's statistics in the format of its input.
        Case(family="gpt_neox", precision="fp32"),
        Case(family="olmo2"),
        Case(family="starcoder2", precision="fp32"),
        Case(family="olmo3", padded=True),
    ],
    ids=str,
)
def test_bytes_outside_layers(case: Case) -> None:
    terms = model_saved(case.architecture, case.workload, role="policy")
    if case.precision == "autocast-bf16":
        terms += autocast_weight_copies(case.architecture, role="policy")
    assert sum(term.bytes for term in terms) == observed(case)


def test_gemma2_leaves_the_capped_logits_to_the_head() -> None:
    """Beyond the formulas here, Gemma 2's head saves the tanh of its logits."""
    case = Case(family="gemma2", attention="eager")
    terms = model_saved(case.architecture, case.workload, role="policy")
    capped = case.rows * case.tokens * case.architecture.vocab * 2
    assert sum(term.bytes for term in terms) + capped == observed(case)


def test_gpt2_as_on_cuda() -> None:
    """The CPU keeps dropout noise in bf16 and LayerNorm statistics in bf16."""
    case = Case(family="gpt2")
    arch, rows = case.architecture, case.rows * case.tokens
    terms = model_saved(arch, case.workload, role="policy")
    noise = rows * arch.hidden * (2 - 1)
    statistics = 2 * rows * (4 - 2)
    assert sum(term.bytes for term in terms) + noise - statistics == observed(case)


def kept_by_checkpoints(case: Case) -> int:
    """Live bytes after the layers' forward, less the last hidden state and the final norm."""
    model = case.build()
    model.activation_checkpointing_enable({"use_reentrant": False})
    births = Births([*model.parameters(), *model.buffers()])
    live: list[int] = []

    def after(*_: object) -> None:
        live.append(sum(change for _, change, _ in births.log))

    body_of(model).norm.register_forward_pre_hook(after)
    layers_of(model)[0].register_forward_pre_hook(after)
    with births:
        body_of(model)(**case.inputs())
    return live[-1] - live[0]


@pytest.mark.parametrize("case", [Case(family="llama"), Case(family="qwen3", precision="fp32")])
def test_each_checkpoint_keeps_its_input(case: Case) -> None:
    terms = checkpointed_saved(case.architecture, case.workload, role="policy", layers=3)
    assert sum(term.bytes for term in terms) == kept_by_checkpoints(case)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_checkpoints_keep_the_mask(attention: str) -> None:
    """The mask is made before the first layer, and not freed with the forward."""
    case = Case(family="llama", attention=attention, padded=True)
    model = case.build()
    model.activation_checkpointing_enable({"use_reentrant": False})
    births = Births([*model.parameters(), *model.buffers()])
    with births:
        output = body_of(model)(**case.inputs()).last_hidden_state
        # Only the graph holds what is left, besides the output.
        held = {number: change for _, change, number in births.log if change > 0}
        for _, change, number in births.log:
            if change < 0:
                del held[number]
    mask = case.rows * case.tokens**2 * (1 if attention == "sdpa" else 2)
    terms = checkpointed_saved(case.architecture, case.workload, role="policy", layers=3)
    assert terms[1].bytes == mask
    assert mask in held.values()
    del output


def test_glm_counts_the_tables_that_its_layers_copy() -> None:
    """They stand through the forward, for the next layer; the graph keeps the copies only."""
    case = Case(family="glm")
    terms = model_saved(case.architecture, case.workload, role="policy")
    tables = 2 * case.tokens * 8 * 2
    assert sum(term.bytes for term in terms) - tables == observed(case)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3_text", "phi3"])
def test_a_packed_row_gets_a_mask_as_a_padded_one_does(family: str) -> None:
    case = Case(family=family)
    positions = torch.cat([torch.arange(10), torch.arange(14)])[None]
    shapes = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        shapes.append(tuple(tensor.shape))
        return tensor

    ids = torch.randint(3, 100, (1, 24))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        body_of(case.build())(input_ids=ids, position_ids=positions, use_cache=False)
    assert (1, 1, 24, 24) in shapes
    packed = replace(case.workload, sequences=1, batch_shape="packed")
    names = [t.name for t in layer_saved(case.architecture, packed, role="policy", layers=1)]
    assert "attention mask as a bias" in names


def test_autocast_caches_a_copy_of_every_trainable_linear_weight() -> None:
    """All layers' copies, while a forward without gradients runs over trainable weights."""
    case = Case(family="llama", precision="autocast-bf16")
    model = case.build()
    linear = [p for name, p in model.named_parameters() if p.dim() == 2 and "embed" not in name]
    births = Births([*model.parameters(), *model.buffers()])
    with births, torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        output = model(**case.inputs()).logits
        before = sum(change for _, change, _ in births.log)
    after = sum(change for _, change, _ in births.log)
    copies = autocast_weight_copies(case.architecture, role="policy", layers=True)
    assert before - after == copies[0].bytes == sum(p.numel() * 2 for p in linear)
    assert copies[0].tensors == len(linear)
    del output
