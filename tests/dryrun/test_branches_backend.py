"""The kernel that scaled_dot_product_attention takes, by card: rules of sdp_utils.cpp."""

from dataclasses import replace

import pytest

from planner.catalog.gpu_catalog import gpu
from planner.dryrun.run.branches.backend import Call, backend
from planner.dryrun.run.branches.card import CardTraits, traits

CUDNN_9_20 = 92000
AMPERE = CardTraits(compute_capability="8.0", cudnn_version=CUDNN_9_20)
ADA = replace(AMPERE, compute_capability="8.9")
HOPPER = replace(AMPERE, compute_capability="9.0")
BLACKWELL = replace(AMPERE, compute_capability="10.0")
WORKSTATION_BLACKWELL = replace(AMPERE, compute_capability="12.0")
TURING = replace(AMPERE, compute_capability="7.5")

CALL = Call(
    heads=32,
    kv_heads=8,
    head_dim=128,
    value_dim=128,
    tokens=1024,
    key_tokens=1024,
    item_bytes=2,
    half="bf16",
    masked=False,
    causal=True,
    grouped=True,
    dropout=0.0,
    trains=True,
)
MASKED = replace(CALL, kv_heads=32, masked=True, causal=False, grouped=False)
FP32 = replace(CALL, item_bytes=4, half="")


@pytest.mark.parametrize(
    ("card", "call", "expected"),
    [
        (AMPERE, CALL, "flash"),
        (AMPERE, MASKED, "efficient"),
        # Flash wants half precision, the efficient kernel wants as many key heads.
        (AMPERE, FP32, "math"),
        (AMPERE, replace(FP32, kv_heads=32, grouped=False), "efficient"),
        # A head of 20 channels is no multiple of eight: flash pads, the efficient kernel cannot.
        (AMPERE, replace(MASKED, head_dim=20, value_dim=20), "math"),
        (AMPERE, replace(CALL, head_dim=20, value_dim=20), "flash"),
        (AMPERE, replace(CALL, head_dim=512, value_dim=512), "math"),
        (AMPERE, replace(CALL, head_dim=192, value_dim=128, kv_heads=32), "efficient"),
        # One query against many keys from the upper left corner is not flash's causal mask.
        (AMPERE, replace(CALL, tokens=1, kv_heads=32, grouped=False), "efficient"),
        (AMPERE, replace(CALL, head_dim=224, value_dim=224), "flash"),
        (ADA, replace(CALL, head_dim=224, value_dim=224, kv_heads=32), "efficient"),
        (ADA, replace(CALL, head_dim=224, value_dim=224, trains=False), "flash"),
        (HOPPER, CALL, "cudnn"),
        (HOPPER, MASKED, "cudnn"),
        (HOPPER, FP32, "math"),
        (HOPPER, replace(CALL, head_dim=256, value_dim=256), "cudnn"),
        (BLACKWELL, CALL, "cudnn"),
        (BLACKWELL, replace(CALL, head_dim=256, value_dim=256), "flash"),
        (BLACKWELL, replace(CALL, head_dim=192, kv_heads=32), "cudnn"),
        (WORKSTATION_BLACKWELL, CALL, "flash"),
        # The wheels for CUDA 12 had cuDNN 9.15.0 or older for a long time.
        (replace(HOPPER, cudnn_version=91500), CALL, "flash"),
        (replace(HOPPER, cudnn_version=0), MASKED, "efficient"),
        (TURING, CALL, "math"),
        (TURING, replace(MASKED, half="fp16"), "efficient"),
    ],
)
def test_backend(card: CardTraits, call: Call, expected: str) -> None:
    assert backend(call, card) == expected


def test_catalog_card_has_the_libraries_of_its_torch() -> None:
    assert traits(gpu("h100-80gb"), "2.13.0") == HOPPER


def test_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match=r"torch_version: which cuDNN torch 2\.99"):
        traits(gpu("h100-80gb"), "2.99")
    with pytest.raises(ValueError, match="gfx942 is no CUDA compute capability"):
        CardTraits(compute_capability="gfx942", cudnn_version=0)
