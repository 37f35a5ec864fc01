"""A decoder layer divided among GPUs by a wrapper around its parts, against transformers and torch.

The decoder is as every other test has it: tensor parallelism is a wrapper, a pipeline a schedule.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import real_mesh
from evidence import Evidence
from mesh_tape import (
    INSIDE,
    Stage,
    TensorParallel,
    bytes_of,
    inside,
    one_forward_one_backward,
    recorded,
)
from planner.catalog.architecture import Architecture
from planner.formulas.activations import Workload
from planner.formulas.activations.setting import Setting, unwrapped
from planner.formulas.activations.terms import sizes_of

DIVIDED = [("eager", 1), ("eager", 2), ("eager", 4), ("sdpa", 1), ("sdpa", 2)]
RANKS = range(real_mesh.STAGES)
SCALARS_BYTES = 4 * (real_mesh.MICRO_BATCHES + 1)
"""Losses of the micro-batches and the gradient of one, in fp32: no shape of a layer."""

EVIDENCE = Evidence(
    "mesh",
    of=("real_mesh",),
    kinds={
        **{f"tensor {ranks} {attention}": "tensor" for attention, ranks in DIVIDED},
        "pipeline": "pipeline",
    },
)


def architecture(sizes: dict[str, Any]) -> Architecture:
    """The Llama of a configuration's sizes."""
    return Architecture(
        family="llama",
        hidden=sizes["hidden_size"],
        layers=real_mesh.STAGE_LAYERS,
        intermediate=sizes["intermediate_size"],
        heads=sizes["num_attention_heads"],
        kv_heads=sizes["num_key_value_heads"],
        head_dim=sizes["head_dim"],
        rotary_dim=sizes["head_dim"],
        vocab=sizes["vocab_size"],
        max_positions=real_mesh.TOKENS,
        tied=False,
        norm="rmsnorm",
        activation="silu",
        gated=True,
    )


def workload(tokens: int) -> Workload:
    return Workload(
        sequences=1,
        tokens=tokens,
        batch_shape="full",
        attention="eager",
        precision="bf16",
        trains="all",
    )


def setting(attention: str, *, masked: bool, gradients: str = "") -> Setting:
    return Setting(
        attention=attention,
        masked=masked,
        unpadded=False,
        packed=False,
        precision="bf16",
        trains="all",
        kernels="cpu",
        weight_gradients=gradients,
    )


@pytest.mark.parametrize(("attention", "ranks"), DIVIDED)
def test_tensor_parallel_is_a_wrapper_around_parts(attention: str, ranks: int) -> None:
    """transformers' own plan saves as much a layer, and asks for as many all-reduces."""
    words = ("tensor", str(ranks), attention)
    real = EVIDENCE.figures(" ".join(words), real_mesh.SIZES, lambda: real_mesh.run(words)[0])
    arch = architecture(real_mesh.SIZES)
    # With fake tensors transformers cannot see that no token is masked, and makes a mask.
    wrap = TensorParallel() if ranks > 1 else unwrapped
    found = recorded(arch, setting(attention, masked=True), wrap)
    sizes = sizes_of(arch, workload(real_mesh.TOKENS))
    regions = {"": sizes, INSIDE: inside(sizes, ranks)}
    assert bytes_of(found.saved, regions) == real["saved_bytes"]
    passes = found.forward, found.backward
    sums = [sum(n for (what, _), n in of.items() if what == "all-reduce") for of in passes]
    assert sums == [real["forward"], real["backward"]]
    assert all(kind.shape == "hidden" for of in passes for _, kind in of)


@pytest.mark.parametrize("rank", RANKS)
def test_a_pipeline_is_a_list_of_words(rank: int, tmp_path: Path) -> None:
    """torch's own ``Schedule1F1B`` between two processes has the same peak on both."""

    def run() -> list[dict[str, int]]:
        store = str(tmp_path / "store")
        return real_mesh.run(*(("pipeline", str(each), store) for each in RANKS))

    real = EVIDENCE.figures("pipeline", real_mesh.NARROW, run)[rank]
    arch = architecture(real_mesh.NARROW)
    first, last = rank == 0, rank == real_mesh.STAGES - 1
    stage = Stage(
        arch,
        setting("eager", masked=False, gradients="added"),
        real_mesh.STAGE_LAYERS,
        first,
        last,
        real_mesh.MICRO_BATCHES,
    )
    tape, regions = stage.tape, {"": sizes_of(arch, workload(real_mesh.STAGE_TOKENS))}
    begin = len(tape.events)
    begun = bytes_of(tape.live(begin), regions)
    words = [*one_forward_one_backward(real_mesh.STAGES, rank, real_mesh.MICRO_BATCHES)]
    stage.run(words)
    assert bytes_of(tape.live(len(tape.events)), regions) == begun, "a step leaves nothing"
    peaks = tape.live_at_peaks(begin, len(tape.events))
    highest = max(bytes_of(live, regions) for live in peaks) - begun
    assert highest + SCALARS_BYTES * last == real["peak_bytes"] - real["begun_bytes"]


def test_a_stage_is_as_many_forwards_ahead_as_follow_it() -> None:
    for stages in range(1, 6):
        for micro_batches in range(stages, 9):
            for rank in range(stages):
                words = [*one_forward_one_backward(stages, rank, micro_batches)]
                assert words.count("forward") == words.count("backward") == micro_batches
                ahead = [0]
                for word in words:
                    ahead.append(ahead[-1] + (1 if word == "forward" else -1))
                assert min(ahead) == 0
                assert max(ahead) == stages - rank
                steady = words[stages - rank : len(words) - (stages - rank)]
                assert all(one != other for one, other in pairwise(steady))
