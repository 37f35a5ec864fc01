"""Layers under torch.compile: saved bytes against AOTAutograd's partitioner on the CPU."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from evidence import Evidence
from planner.formulas.activations.layers import layer_saved, record_of
from real_layers import Case, saved_storages

pytestmark = [
    # Dynamo imports torch.jit, which is deprecated, and looks at .grad of what is no leaf.
    pytest.mark.filterwarnings("ignore:`torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]

EVERY = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
OTHER_SIZES = (("head_dim", 40), ("hidden_size", 120), ("intermediate_size", 512))
SMALL_MLP = (("intermediate_size", 40), ("num_key_value_heads", 6))

CASES = [
    Case(family="llama", compiled=True),
    Case(family="llama", compiled=True, padded=True, rows=3, tokens=40, changes=OTHER_SIZES),
    Case(family="llama", compiled=True, precision="autocast-bf16"),
    Case(family="llama", compiled=True, attention="eager", changes=SMALL_MLP),
    Case(family="llama", compiled=True, targets=EVERY),
    Case(family="llama", compiled=True, targets=("q_proj", "v_proj")),
    Case(family="qwen2", compiled=True, precision="fp32", padded=True),
    Case(family="qwen3", compiled=True, padded=True),
    Case(family="qwen3", compiled=True, attention="eager", padded=True),
    Case(family="mistral", compiled=True, changes=SMALL_MLP),
]


def named(case: Case) -> str:
    return "-".join((str(case), *case.targets))


EVIDENCE = Evidence(
    "compiled-layers", of=("real_layers",), kinds={named(case): case.family for case in CASES}
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_saved_bytes_equal_a_compiled_layer(case: Case) -> None:
    saved = record_of(case.architecture, case.setting).saved
    expected = sum(case.bytes_of(label, count) for label, count in saved.items())
    real = EVIDENCE.figures(
        named(case), asdict(case), lambda: sum(size for size, _ in saved_storages(case)["layer"])
    )
    assert expected == real


def test_a_compiled_layer_saves_less() -> None:
    plain = Case(family="qwen3")
    sizes = []
    for case in (plain, Case(family="qwen3", compiled=True)):
        terms = layer_saved(case.architecture, case.workload, role="policy", layers=1)
        sizes.append(sum(term.bytes for term in terms))
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize("family", ["gemma3_text", "phi3", "gpt2"])
def test_other_families_are_refused(family: str) -> None:
    case = Case(family=family, compiled=True)
    with pytest.raises(ValueError, match="compiled is set but .* set compiled to false"):
        layer_saved(case.architecture, case.workload, role="policy", layers=1)


def test_adapters_with_eager_attention_are_refused() -> None:
    case = Case(family="llama", attention="eager", compiled=True, targets=EVERY)
    with pytest.raises(ValueError, match="compiled is set with LoRA"):
        layer_saved(case.architecture, case.workload, role="policy", layers=1)
