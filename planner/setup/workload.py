"""How a model of a setup runs on a micro-batch, in the activation formulas' words.

The estimate sums over it; a plan's own validation asks whether formulas cover it.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from planner.catalog.cudnn import CUDNN_OF_TORCH, comes_first
from planner.catalog.gpu_catalog import Gpu
from planner.catalog.multiprocessors import multiprocessors
from planner.formulas.activations.workload import Workload
from planner.numeric import Num, some
from planner.plan import Plan
from planner.plan.fields import FLASH
from planner.plan.frameworks import framework_named
from planner.setup.setup import Setup
from planner.values.model_setup import ModelSetup


def training_workload(setup: Setup, model: ModelSetup, gpu: Gpu) -> Workload:
    """One training forward of a model on one GPU; gradients pass through a frozen one."""
    q = setup.q
    trains = "inputs"
    if model.trained:
        trains = "lora" if model.adapted else "all"
    return _workload(setup, model, gpu, (q.micro_rows, q.micro_row_tokens, q.micro_alone), trains)


def inference_workload(
    setup: Setup, model: ModelSetup, gpu: Gpu, *, disabled: bool = False
) -> Workload:
    """One forward without gradient on one GPU; ``disabled`` leaves its adapters out."""
    q = setup.q
    rows = q.logprob_rows, q.logprob_row_tokens, q.logprob_alone
    return _workload(setup, model, gpu, rows, "none", disabled)


def prompt_workload(setup: Setup, model: ModelSetup, gpu: Gpu) -> Workload:
    """The prompts' forward of transformers' ``generate``, which fills the cache."""
    plan, sequences = setup.plan, setup.q.sequences_per_gpu_step
    return Workload(
        sequences=sequences,
        tokens=plan.prompt_tokens,
        batch_shape="full" if plan.batch_shape == "full" else "padded",
        attention=kernel_of(plan.attention),
        precision=setup.precision,
        trains="none",
        positions=sequences,
        fills_cache=True,
        **_with(setup, model, gpu, adapters=model.adapted, drops=False),
    )


def precision_of(setup: Setup, model: ModelSetup) -> str:
    """How a model's forward computes: frozen ones in the compute dtype run outside autocast."""
    frozen = not model.trained and model.stored == setup.plan.dtype
    return setup.plan.dtype if frozen else setup.precision


def targets(plan: Plan) -> tuple[str, ...]:
    """The plan's adapter targets as names."""
    return tuple(name.strip() for name in plan.lora_targets.split(",") if name.strip())


def four_bit(setup: Setup, model: ModelSetup) -> bool:
    """Whether a model's projections are kept in 4 bits: those that adapters train."""
    return setup.plan.finetuning == "qlora" and model.adapted


def kernel_of(attention: str) -> Literal["eager", "sdpa", "flash"]:
    """Whose attention a model's activations are of: both FlashAttentions keep the same."""
    return "flash" if attention in FLASH else attention  # type: ignore[return-value]


def compile_breaks(plan: Plan, attention: str) -> bool:
    """Whether compiled layers run eagerly after all.

    A flash-attn kernel breaks the graph, and inside a checkpoint a broken graph is
    not compiled at all: published compiled runs with both need what eager ones do
    (docs/accuracy.md, prime-rl).
    """
    return kernel_of(attention) == "flash" and plan.gradient_checkpointing == "full"


def _workload(
    setup: Setup,
    model: ModelSetup,
    gpu: Gpu,
    shape: tuple[Num, Num, Num],
    trains: str,
    disabled: bool = False,
) -> Workload:
    """Of ``shape``: rows, tokens of a row, and whether they are one sequence without padding."""
    plan, (rows, tokens, alone) = setup.plan, shape
    attention = kernel_of(model.attention)
    # flash-attn's packed rows have no mask anyway; eager attention always has one.
    bare = some(alone) and (attention == "sdpa" or plan.batch_shape == "padded")
    full = bare and not isinstance(alone, np.ndarray)
    return Workload(
        sequences=rows,
        tokens=tokens,
        positions=rows if framework_named(plan.framework).numbers_rows else 1,
        batch_shape="full" if full else plan.batch_shape,
        alone=alone if bare and not full else 0,
        attention=attention,
        precision=precision_of(setup, model),
        trains=trains,
        compiled=plan.compile and not compile_breaks(plan, model.attention),
        **_with(setup, model, gpu, adapters=model.adapted and not disabled),
    )


def _with(
    setup: Setup, model: ModelSetup, gpu: Gpu, *, adapters: bool, drops: bool = True
) -> dict[str, Any]:
    """What a pass has of the model and the card, whatever it runs on.

    ``drops`` is false in evaluation mode, which drops nothing.
    """
    plan = setup.plan
    cudnn = comes_first(gpu.compute_capability, CUDNN_OF_TORCH.get(plan.torch_version, 0))
    return {
        "lora_targets": targets(plan) if adapters else (),
        "lora_rank": plan.lora_rank if adapters else 0,
        "fp32_adapters": setup.adapters_in_fp32,
        "drops_adapters": adapters and drops and plan.lora_dropout > 0,
        "autocasts_adapters": model.adapted
        and (setup.autocasts_adapters if adapters else setup.autocasts_forwards),
        "casts_inputs": setup.fsdp,
        "four_bit": four_bit(setup, model),
        "cudnn": cudnn,
        "multiprocessors": multiprocessors(plan.gpu) if model.liger else 0,
    }
