"""The rollout engine itself, where it is installed: wake, generate, sleep, weight sync.

vLLM is asked for when a plan has it colocated and the device is a card; nothing else here imports
it. What it leaves behind asleep is measured, since nobody can derive it. Imports torch.
"""

from __future__ import annotations

import gc
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from planner.dryrun.ask.request import configs_of
from planner.plan import Plan
from planner.setup.quantities import quantities
from planner.steps import models
from planner.steps.stage import DTYPES, Stage
from planner.trial.ask.footprints import PhaseFigures, rates
from planner.trial.run import cadence
from planner.units import GIB, read_bytes
from planner.values.dtypes import TORCH_NAMES
from planner.values.step_phases import ROLLOUT, WEIGHT_SYNC

ENGINE = "vllm"
SAMPLED = 256
"""Tokens of each response that the engine generates; its time grows evenly after them."""
BUCKET_BYTES = 2 * GIB
"""Weights that travel to the engine at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFigures:
    """What was measured of the engine."""

    phases: tuple[PhaseFigures, ...]
    residue_bytes: int | None
    """Device memory in use while it sleeps, beyond what was in use before it was there."""
    notes: tuple[str, ...]


def missing(kind: str) -> str:
    """Why the engine is not measured, in a sentence; empty when it is."""
    if kind != "cuda":
        return "The rollout engine was not run: vLLM needs a GPU."
    if find_spec(ENGINE) is None:
        return "The rollout engine was not run: vLLM is not installed here (pip install vllm)."
    return ""


def measure_engine(
    plan: Plan,
    device: str,
    model_folder: str = "",
    used: Callable[[], int | None] | None = None,
) -> EngineFigures:
    """Start the engine and take it through a step's stations.

    Args:
        plan: with a colocated engine.
        device: where its weights for the sync are made.
        model_folder: a local model; empty makes weights of zeros and ones up.
        used: bytes of the device in use; by default as the driver says.
    """
    # The engine's own process would be out of reach of the weight sync.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    look = used or (lambda: _driver_used(device))
    before = look()
    with tempfile.TemporaryDirectory() as folder:
        model = model_folder or _written(plan, Path(folder))
        found = _stations(_started(plan, model, not model_folder), plan, device, before, look)
    gc.collect()
    return found


def _stations(
    engine: Any, plan: Plan, device: str, before: int | None, look: Callable[[], int | None]
) -> EngineFigures:
    awake = look()
    sampled, tokens = _timed(lambda: _generate(engine, plan))
    generating, residue = look(), None
    notes = [
        f"vLLM generated {tokens} tokens; a step's {plan.response_tokens} a response are as many "
        "times longer."
    ]
    level = plan.vllm_sleep_level
    if level:
        slept, _ = _timed(lambda: engine.sleep(level=level))
        residue = _above(before, look())
        woken, _ = _timed(engine.wake_up)
        kept = "an unknown amount" if residue is None else read_bytes(residue)
        notes.append(
            f"vLLM took {slept:.1f} s to sleep (level {level}) and {woken:.1f} s to wake up; "
            f"asleep it kept {kept} of GPU memory."
        )
    sync, tensors = _timed(lambda: _sync(engine, plan, device))
    merged = ", adapters merged into them first" if plan.finetuning == "lora" else ""
    notes.insert(1, f"{tensors} tensors were handed to the engine{merged}.")
    whole = sampled * plan.response_tokens / max(min(plan.response_tokens, SAMPLED), 1)
    of_step = cadence.step_tokens(plan, ROLLOUT.name)
    phases = (
        _phase(ROLLOUT.name, whole, _above(before, awake, generating), of_step),
        _phase(WEIGHT_SYNC.name, sync, _above(before, look()), None),
    )
    return EngineFigures(phases=phases, residue_bytes=residue, notes=tuple(notes))


def _phase(name: str, seconds: float, peak: int | None, tokens: float | None) -> PhaseFigures:
    return PhaseFigures(
        name=name,
        instant="the engine's",
        source="trial",
        device_bytes=peak,
        seconds=seconds,
        **rates(seconds, tokens=tokens),
    )


def _above(before: int | None, *seen: int | None) -> int | None:
    known = [size for size in seen if size is not None]
    return None if before is None or not known else max(max(known) - before, 0)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    found = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, found


def _started(plan: Plan, model: str, dummy: bool) -> Any:
    """The engine with the plan's options, and weights of no meaning where there are none."""
    from vllm import LLM  # type: ignore[import-not-found,unused-ignore]

    return LLM(
        model=model,
        load_format="dummy" if dummy else "safetensors",
        skip_tokenizer_init=True,
        trust_remote_code=False,
        dtype=TORCH_NAMES[plan.dtype],
        kv_cache_dtype=plan.kv_cache_dtype,
        quantization=None if plan.rollout_quantization == "none" else plan.rollout_quantization,
        enable_sleep_mode=plan.vllm_sleep_level > 0,
        enforce_eager=plan.enforce_eager,
        gpu_memory_utilization=plan.gpu_memory_utilization,
        max_num_seqs=plan.max_num_seqs,
        max_num_batched_tokens=plan.max_num_batched_tokens,
        max_model_len=plan.prompt_tokens + plan.response_tokens,
    )


def _written(plan: Plan, folder: Path) -> str:
    """A folder with the plan's config.json, as the engine wants one."""
    settings = models.settings_of(configs_of(plan)["policy"], "sdpa")
    values = {**settings.to_dict(), "architectures": [_architecture(settings)]}
    (folder / "config.json").write_text(json.dumps(values, default=str), "utf-8")
    return str(folder)


def _architecture(settings: Any) -> str:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return str(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[settings.model_type])


def _generate(engine: Any, plan: Plan) -> int:
    """Responses of one step for this GPU, each cut to a sample's tokens; how many tokens."""
    from vllm import SamplingParams

    sequences = int(quantities(plan).sequences_per_gpu_step)
    tokens = min(plan.response_tokens, SAMPLED)
    prompts = [
        {"prompt_token_ids": [1 + (index + place) % 100 for place in range(plan.prompt_tokens)]}
        for index in range(sequences)
    ]
    engine.generate(
        prompts,
        SamplingParams(max_tokens=tokens, ignore_eos=True, detokenize=False),
        use_tqdm=False,
    )
    return sequences * tokens


def _sync(engine: Any, plan: Plan, device: str) -> int:
    """Hand the policy's weights to the engine, in buckets as trainers do; how many tensors."""
    stage = Stage(device)
    settings = models.settings_of(configs_of(plan)["policy"], "sdpa")
    policy = models.language_model(stage, settings, DTYPES[plan.dtype])
    if plan.finetuning == "lora":
        policy = models.adapted(policy, plan)
        policy.merge_adapter()  # type: ignore[operator]
    target = engine.llm_engine.model_executor.driver_worker.model_runner.model
    count = 0
    for bucket in _buckets(policy):
        target.load_weights(bucket)
        count += len(bucket)
    if plan.finetuning == "lora":
        policy.unmerge_adapter()  # type: ignore[operator]
    return count


def _buckets(policy: nn.Module) -> Iterator[list[tuple[str, torch.Tensor]]]:
    bucket: list[tuple[str, torch.Tensor]] = []
    size = 0
    for name, weight in models.causal(policy).state_dict().items():
        if "lora_" in name:
            continue
        bucket.append((name.replace(".base_layer", ""), weight))
        size += weight.nbytes
        if size >= BUCKET_BYTES:
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket


def _driver_used(device: str) -> int | None:
    if not torch.cuda.is_available():
        return None
    free, total = torch.cuda.mem_get_info(device)
    return int(total - free)
