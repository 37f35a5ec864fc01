"""A step without data takes the branches of a GPU: diffed against real steps on CPU."""

from collections import Counter
from typing import Any

import pytest
import torch
import transformers.masking_utils
from torch._subclasses.fake_tensor import FakeTensorMode

from branch_steps import TOKENS, Ran, config, step
from planner.dryrun.run.branches import (
    CardTraits,
    fallbacks,
    gpu_branches,
    linear_attention,
    supposed,
)

torch.set_num_threads(1)

AMPERE = CardTraits(compute_capability="8.0", cudnn_version=92000)
HOPPER = CardTraits(compute_capability="9.0", cudnn_version=92000)
SHAPES = ("full", "padded", "packed")
FAMILIES = [
    *("llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3", "phi3", "olmo2"),
    *("gpt2", "gpt_neox", "qwen3_moe"),
]
STATEFUL = ["qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"]

CPU_KERNEL = "aten::_scaled_dot_product_flash_attention_for_cpu"
KERNELS = {
    "flash": "aten::_scaled_dot_product_flash_attention",
    "efficient": "aten::_scaled_dot_product_efficient_attention",
    "cudnn": "aten::_scaled_dot_product_cudnn_attention",
}


def dry(family: str, attention: Any, shape: Any, card: CardTraits = AMPERE, **more: Any) -> Ran:
    with gpu_branches(card=card, batch_shape=shape, attention=attention):
        return step(family, attention, shape, "meta", **more)


def renamed(ran: Ran, kernel: str) -> list[str]:
    """A real step's operators, with the CPU's attention called as the card's is."""
    return [name.replace(CPU_KERNEL, KERNELS[kernel]) for name in ran.operators]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_eager_runs_the_operators_of_a_real_step(family: str, shape: str) -> None:
    real, meta = step(family, "eager", shape, "cpu"), dry(family, "eager", shape)
    assert meta.operators == real.operators


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", STATEFUL)
def test_around_the_kernels_of_linear_attention_a_real_step_runs(family: str, shape: str) -> None:
    with linear_attention.kernels(AMPERE, lambda _: None):  # a CPU has the loop only
        real = step(family, "eager", shape, "cpu")
    meta = dry(family, "eager", shape)
    assert meta.operators == real.operators
    assert meta.saved == real.saved


@pytest.mark.parametrize("card", [AMPERE, HOPPER], ids=["ampere", "hopper"])
@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2", "qwen3_moe", "olmo2"])
def test_sdpa_of_a_full_batch_runs_and_keeps_what_a_real_step_does(
    family: str, card: CardTraits
) -> None:
    real, meta = step(family, "sdpa", "full", "cpu"), dry(family, "sdpa", "full", card)
    assert meta.operators == renamed(real, "flash" if card is AMPERE else "cudnn")
    # A card keeps its random state too: a seed of two numbers and an empty one, or two numbers.
    random = Counter({(16, "uint64"): 2, (8, "uint64"): 2})
    if card is HOPPER:
        random = Counter({(8, "int64"): 4})
    if family == "gpt2":
        # The CPU keeps a norm's two statistics a token in bf16, a card in fp32.
        tokens, norms = 2 * TOKENS, 2 * 2 + 1
        real.saved[2 * tokens, "bfloat16"] -= 2 * norms
        real.saved[4 * tokens, "float32"] += 2 * norms
    assert meta.saved == +real.saved + random


@pytest.mark.parametrize("shape", ["padded", "packed"])
@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3", "mistral"])
def test_sdpa_with_a_mask(family: str, shape: str) -> None:
    real = step(family, "sdpa", shape, "cpu")
    hopper, ampere = dry(family, "sdpa", shape, HOPPER), dry(family, "sdpa", shape, AMPERE)
    assert hopper.operators == renamed(real, "cudnn")
    assert hopper.saved == real.saved + Counter({(8, "int64"): 4})
    # The efficient kernel sees the bias once for every head, as a view.
    expected = renamed(real, "efficient")
    while KERNELS["efficient"] in expected:
        at = expected.index(KERNELS["efficient"])
        expected[at : at + 1] = ["aten::expand", "efficient"]
    efficient = ["efficient" if name == KERNELS["efficient"] else name for name in ampere.operators]
    assert efficient == expected
    assert ampere.saved == hopper.saved


def test_rows_of_the_bias_are_padded_to_eight_and_statistics_to_thirty_two() -> None:
    meta = dry("llama", "sdpa", "padded", AMPERE, tokens=20)
    assert meta.saved[2 * 20 * 24 * 2, "bfloat16"] == 2
    assert meta.saved[2 * 4 * 32 * 4, "float32"] == 2
    hopper = dry("llama", "sdpa", "padded", HOPPER, tokens=20)
    assert hopper.saved[2 * 20 * 20 * 2, "bfloat16"] == 2
    assert hopper.saved[2 * 4 * 20 * 4, "float32"] == 2


def test_sliding_windows_of_a_full_batch_need_a_mask_and_longer_ones_do_not() -> None:
    with gpu_branches(
        card=AMPERE, batch_shape="full", attention="sdpa"
    ) as branches:
        step("mistral", "sdpa", "full", "meta")
        assert dict(branches.calls) == {"efficient": 2}
        branches.calls.clear()
        step("mistral", "sdpa", "full", "meta", tokens=7)
        assert dict(branches.calls) == {"flash": 2}


def test_grouped_heads_in_fp32_fall_to_plain_arithmetic_in_place() -> None:
    """Saved as on CPU, where the same branch can be asked for."""
    meta = dry("llama", "sdpa", "full", dtype=torch.float32)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        real = step("llama", "sdpa", "full", "cpu", dtype=torch.float32)
    assert meta.saved == real.saved
    # Under a dispatch mode the original adds the mask out of place; without one it does not.
    out_of_place, in_place = "aten::add.Tensor", "aten::add_.Tensor"
    assert Counter(meta.operators)[in_place] == Counter(real.operators)[in_place] + 2
    assert Counter(meta.operators)[out_of_place] == Counter(real.operators)[out_of_place] - 2


@pytest.mark.parametrize("shape", SHAPES)
def test_fakes_of_the_cpu_take_the_same_branches(shape: str) -> None:
    meta = dry("qwen3", "sdpa", shape)
    with (
        gpu_branches(card=AMPERE, batch_shape=shape, attention="sdpa"),
        FakeTensorMode(),
    ):
        fake = step("qwen3", "sdpa", shape, "cpu")
    assert fake.saved == meta.saved
    # Fakes ask for their device through an operator of its own.
    assert [name for name in fake.operators if name != "prim::device"] == meta.operators


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2", "gemma3", "gpt2"])
def test_flash_runs_and_never_sees_a_mask_of_pairs(family: str, shape: str) -> None:
    meta = dry(family, "flash", shape, tokens=37)
    kernel = "aten::_flash_attention_forward"
    assert meta.operators.count(kernel) == 2
    assert meta.operators.count("aten::_flash_attention_backward") == 2
    assert not [size for size, _ in meta.saved if size % (37 * 37) == 0]


def test_flash_keeps_queries_keys_values_output_and_statistics_once() -> None:
    """Two layers of 4 heads over 2 of 16 channels, 2 rows of 32 tokens."""
    full, padded = dry("llama", "flash", "full"), dry("llama", "flash", "padded")
    sdpa = dry("llama", "sdpa", "full")
    assert full.saved == sdpa.saved
    # Without padding tokens stand end to end. The kernel's output is kept so, and once more with
    # padding, for the projection; each layer keeps where tokens come from and sequences start.
    output = (2 * TOKENS * 4 * 16 * 2, "bfloat16")
    indices, starts = (2 * TOKENS * 8, "int64"), ((2 + 1) * 4, "int32")
    assert padded.saved - full.saved == Counter({output: 2, indices: 2, starts: 2})
    assert full.saved - padded.saved == Counter()


def test_packed_flash_knows_its_sequences() -> None:
    lengths = (1, 2, 3, 5, 8)
    with gpu_branches(card=AMPERE, batch_shape="packed", attention="flash") as branches:
        told = {"tokens": sum(lengths), "lengths": lengths, "numbered": branches.numbered}
        assert step("llama", "flash", "packed", "meta", **told).saved[6 * 4, "int32"] == 2


def test_dropout_is_the_fused_kernel_with_a_mask_of_booleans() -> None:
    value = torch.empty(8, 8, device="meta", dtype=torch.bfloat16, requires_grad=True)
    saved: list[torch.dtype] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor.dtype)
        return tensor

    with (
        gpu_branches(card=AMPERE, batch_shape="full", attention="sdpa"),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
    ):
        torch.nn.Dropout(0.1)(value)
        assert torch.nn.Dropout(0.1).eval()(value) is value
    assert saved == [torch.bool]


def test_autocast_widens_what_it_widens_on_cuda() -> None:
    """The list in torch's documentation of autocast: ops that autocast to float32 on CUDA."""
    low = torch.rand(4, 4, dtype=torch.bfloat16)
    ids = torch.zeros(4, dtype=torch.int64)

    def formats() -> dict[str, torch.dtype]:
        with torch.autocast("cpu", torch.bfloat16):
            return {
                "softmax": low.softmax(-1).dtype,
                "asked softmax": low.softmax(-1, dtype=torch.bfloat16).dtype,
                "log_softmax": low.log_softmax(-1).dtype,
                "layer_norm": torch.nn.functional.layer_norm(low, [4]).dtype,
                "pow": low.pow(2).dtype,
                "rsqrt": low.rsqrt().dtype,
                "logsumexp": low.logsumexp(-1).dtype,
                "cumsum": low.cumsum(-1).dtype,
                "sum": low.sum().dtype,
                "norm": low.norm().dtype,
                "cross_entropy": torch.nn.functional.cross_entropy(low, ids).dtype,
                "mean": low.mean().dtype,
                "sigmoid": low.sigmoid().dtype,
                "matmul": (low.float() @ low.float()).dtype,
            }

    before = formats()
    with gpu_branches(card=AMPERE, batch_shape="full", attention="sdpa"):
        inside = formats()
    stays = {"asked softmax", "mean", "sigmoid", "matmul"}
    assert {name for name, dtype in inside.items() if dtype == torch.bfloat16} == stays
    assert before["softmax"] == torch.bfloat16
    assert formats() == before


def test_autocast_lowers_attention_before_its_kernel_is_chosen() -> None:
    with (
        gpu_branches(
            card=AMPERE, batch_shape="full", attention="sdpa"
        ) as branches,
        FakeTensorMode(),
    ):
        step("llama", "sdpa", "full", "cpu", dtype=torch.float32, autocast=True)
    assert dict(branches.calls) == {"flash": 2}


def test_scratch_of_a_call_on_this_card() -> None:
    with gpu_branches(
        card=HOPPER, batch_shape="full", attention="sdpa"
    ) as branches:
        scores = torch.empty(3, 7, device="meta")
        assert branches.scratch(torch.ops.aten.logsumexp.default, (scores, [-1])) == 4 * 24
        assert branches.scratch(torch.ops.aten.add.Tensor, (scores, scores)) is None
        ids = torch.empty(4000, device="meta", dtype=torch.int64)
        gradient = torch.empty(4000, 8, device="meta", dtype=torch.bfloat16)
        backward = torch.ops.aten.embedding_dense_backward.default
        size = branches.scratch(backward, (gradient, ids, 50000, -1, False))
        assert size == 40 * 4000 + 4400 * (8 + 32)
        assert branches.notes == []
        assert branches.scratch(torch.ops.aten.topk.default, (scores, 2)) is None
        assert [note[:24] for note in branches.notes] == ["Scratch of aten.topk is "]


def test_shape_can_change_for_a_while() -> None:
    with gpu_branches(
        card=AMPERE, batch_shape="packed", attention="sdpa"
    ) as branches:
        with branches.shaped("full"):
            step("llama", "sdpa", "full", "meta")
        assert branches.batch_shape == "packed"
        assert dict(branches.calls) == {"flash": 2}


def test_everything_is_put_back() -> None:
    masking, functional = transformers.masking_utils, torch.nn.functional
    names = ("fast_all", "find_packed_sequence_indices", "is_tracing")
    before = [getattr(masking, name) for name in names]
    before += [functional.scaled_dot_product_attention, functional.dropout]
    with (
        pytest.raises(RuntimeError, match="a step failed"),
        gpu_branches(card=AMPERE, batch_shape="full", attention="flash"),
    ):
        assert functional.scaled_dot_product_attention is not before[3]
        raise RuntimeError("a step failed")
    after = [getattr(masking, name) for name in names]
    assert [*after, functional.scaled_dot_product_attention, functional.dropout] == before


def test_words_of_the_plan_are_checked() -> None:
    wrong: Any = "ragged"
    with (
        pytest.raises(ValueError, match="batch_shape: 'ragged' is not one of full"),
        gpu_branches(card=AMPERE, batch_shape=wrong, attention="sdpa"),
    ):
        pass


def test_fallbacks_and_supposed_packages_are_named() -> None:
    def model(family: str) -> torch.nn.Module:
        with torch.device("meta"):
            return transformers.AutoModelForCausalLM.from_config(config(family))

    class MadeMamba2Mixer(torch.nn.Module):
        """Named as transformers names its state-space layers."""

    class MadeGatedDeltaNet(torch.nn.Module):
        """As in a family whose kernels were not read."""

    assert fallbacks(model("llama")) == supposed(model("llama")) == []
    for family in STATEFUL:
        assert fallbacks(model(family)) == []
        (sentence,) = supposed(model(family))
        assert "flash-linear-attention 0.6.0 and causal-conv1d 1.7.0" in sentence
        assert "fallback" not in sentence
    (sentence,) = fallbacks(MadeMamba2Mixer())
    assert sentence.startswith("fallback branch: the state-space layers")
    (sentence,) = fallbacks(MadeGatedDeltaNet())
    assert sentence.startswith("fallback branch: linear attention")
    assert supposed(MadeGatedDeltaNet()) == []
