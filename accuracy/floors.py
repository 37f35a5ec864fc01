"""``python -m accuracy.floors``: no time is shorter than its bytes or its products allow.

Every model of the catalog, on several cards, parallel sizes and batches: an engine's decoding step
and its prefill, and every phase of a step that has a floor. A floor is the greater of bytes by
bandwidth and of FLOPs by peak, from what the model's own config and published parameter count say:
arithmetic of parameters, which shares nothing with the time model. Writes
``accuracy/measured/floors.json``: for each model how many times were asked for, and which came
closest to its floor.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from planner.catalog.gpu_catalog import Gpu, gpu
from planner.catalog.model_catalog import Model, models
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan, try_plan
from planner.timing.engine_step import Generator

FILE = Path(__file__).parent / "measured" / "floors.json"
CARDS = ("h100-80gb", "h200-141gb", "a100-80gb", "b200-180gb", "rtx-4090")
PARALLEL = (1, 2, 4, 8, 16)
BATCHES = (1, 8, 64, 512)
CONTEXTS = (512, 16384)
PREFILLED = (256, 8192)
BF16 = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What a config says of a model, in elements."""

    dense: float
    """Weights that every pass reads: layers' and head's, without routed experts and look-ups."""
    head: float
    routed: float
    experts: int
    experts_per_token: int
    cached: float
    """Values of keys and values of a token, of the layers that see everything."""
    windowed: float
    """The same of those that see a window."""
    window: int
    latent: float
    """Values of a token of latent attention, which every GPU keeps whole; 0 where it has none."""

    def read(self, tokens: float) -> float:
        """Weights of one pass in which each of ``tokens`` chooses its experts evenly."""
        if not self.experts:
            return self.dense
        met = 1 - (1 - self.experts_per_token / self.experts) ** tokens
        return self.dense + self.routed * met

    @property
    def active(self) -> float:
        """Weights that a token is multiplied with."""
        share = self.experts_per_token / self.experts if self.experts else 0.0
        return self.dense + self.routed * share

    def attended(self, tokens: float, parts: int) -> float:
        """Cached values that one sequence behind so many tokens reads on one of its GPUs.

        Of latent attention an engine keeps latents or what they expand to: the fewer of both.
        """
        seen = (tokens * self.cached + min(tokens, self.window) * self.windowed) / parts
        return min(seen, tokens * self.latent) if self.latent else seen


def sizes(model: Model) -> Sizes:
    """A model's sizes by its config and its published parameter count."""
    c: Mapping[str, Any] = model.config
    hidden = c.get("hidden_size") or c["n_embd"]
    layers = c.get("num_hidden_layers") or c["n_layer"]
    heads = c.get("num_attention_heads") or c["n_head"]
    table = c["vocab_size"] * hidden
    positions = c.get("n_positions", 0) * hidden
    experts = first(c, "num_experts", "n_routed_experts", "num_local_experts")
    wide = c.get("moe_intermediate_size") or c.get("intermediate_size") or 0
    sparse = layers - c.get("first_k_dense_replace", 0)
    routed = 3.0 * experts * hidden * wide * sparse
    tied = c.get("tie_word_embeddings", False)
    kinds = c.get("layer_types") or kinds_of(c, layers)
    each = 2.0 * (c.get("num_key_value_heads") or heads) * (c.get("head_dim") or hidden // heads)
    latent = 0
    if c.get("kv_lora_rank"):
        latent = c["kv_lora_rank"] + c["qk_rope_head_dim"]
        each = heads * (c["qk_nope_head_dim"] + c["qk_rope_head_dim"] + c["v_head_dim"])
    assert model.params is not None
    return Sizes(
        dense=model.params - routed - positions - (0 if tied else table),
        head=table,
        routed=routed,
        experts=experts,
        experts_per_token=first(c, "num_experts_per_tok"),
        cached=each * sum(kind == "full_attention" for kind in kinds),
        windowed=each * sum(kind == "sliding_attention" for kind in kinds),
        window=c.get("sliding_window") or 0,
        latent=latent * layers,
    )


def first(config: Mapping[str, Any], *names: str) -> int:
    """The first of these that a config has; 0 for none."""
    return next((int(config[name]) for name in names if config.get(name)), 0)


def kinds_of(config: Mapping[str, Any], layers: int) -> list[str]:
    """Kinds of layers of configs that do not list them: fewest bytes where they may slide."""
    every = config.get("full_attention_interval")
    if every:
        return ["full_attention"] * (layers // every)
    slides = config.get("sliding_window") and config.get("use_sliding_window", True)
    return ["sliding_attention" if slides else "full_attention"] * layers


class Check(NamedTuple):
    """A time and its floor, both seconds."""

    what: str
    seconds: float
    floor: float

    @property
    def ratio(self) -> float:
        """Below 1 it is broken."""
        return self.seconds / self.floor


def least(card: Gpu, elements: float, flops: float, times: float = 1.0) -> float:
    """Seconds to read so many 16-bit values and compute so many FLOPs, at the datasheet's peaks."""
    peak, bandwidth = card.flops_per_second("bf16"), card.bandwidth_bytes_per_second
    assert peak and bandwidth
    return times * max(elements * BF16 / bandwidth, flops / peak)


def engine_checks(model: Model) -> Iterator[Check]:
    """Steps and passes of an engine: cards × GPUs × slices or whole experts × batches."""
    of = sizes(model)
    assert model.architecture is not None
    for name, parts, whole in itertools.product(CARDS, PARALLEL, (False, True)):
        if whole and (parts == 1 or not of.experts):
            continue
        card = gpu(name)
        engine = Generator(
            arch=model.architecture,
            gpu=card,
            dtype="bf16",
            tensor_parallel=parts,
            expert_parallel=whole,
            logprobs=False,
        )
        where = f"{name}, {parts} GPUs{', whole experts' if whole else ''}"
        for rows, context in itertools.product(BATCHES, CONTEXTS):
            seconds = engine.step(rows, context)
            read = of.read(rows) / parts + rows * of.attended(context, parts)
            if seconds is not None:
                floor = least(card, read, 2.0 * rows * of.active / parts)
                yield Check(f"decoding {rows} x {context:,}, {where}", float(seconds), floor)
        for tokens in PREFILLED:
            passed = engine.prefill(tokens)
            if passed is not None:
                read, flops = of.read(tokens) - of.head, 2.0 * tokens * (of.active - of.head)
                floor = least(card, read / parts, flops / parts)
                yield Check(f"prefill of {tokens:,}, {where}", float(max(passed)), floor)


STEPS: tuple[dict[str, Any], ...] = tuple(
    {"framework": framework, "gpu": card, "finetuning": tuned, "micro_batch_size": micro, **more}
    for framework, card, tuned, micro, more in itertools.product(
        ("plain", "trl", "verl"),
        ("h100-80gb", "a100-80gb"),
        ("full", "lora"),
        (1, 4),
        (
            {"response_tokens": 256},
            {"response_tokens": 2048, "rollout_tensor_parallel": 8},
            {"response_tokens": 256, "rollout_tensor_parallel": 8, "rollout_expert_parallel": True},
        ),
    )
)
COMMON = {
    "method": "grpo",
    "gpus": 8,
    "sharding": "fsdp2",
    "prompts_per_step": 32,
    "prompts_per_update": 32,
    "responses_per_prompt": 4,
    "prompt_tokens": 256,
    "batch_shape": "full",
    "attention": "sdpa",
    "master_dtype": "none",
}


def plans(model: Model, steps: Iterable[Mapping[str, Any]] = STEPS) -> Iterator[Plan]:
    """Those of the steps that the planner takes of this model."""
    for fields in steps:
        plan, _ = try_plan({**COMMON, **fields, "model": model.id})
        if plan is not None:
            yield plan


def step_checks(model: Model, steps: Iterable[Mapping[str, Any]] = STEPS) -> Iterator[Check]:
    """Phases of whole steps."""
    for plan in plans(model, steps):
        yield from phase_checks(sizes(model), plan, estimate(plan))


def phase_checks(of: Sizes, plan: Plan, footprint: Footprint) -> Iterator[Check]:
    """Every phase whose bytes or products a config tells."""
    card = gpu(plan.gpu)
    sequences = plan.prompts_per_step * plan.responses_per_prompt / plan.gpus
    row = plan.prompt_tokens + plan.response_tokens
    micro = plan.micro_batch_size
    body, trains = of.active - of.head, plan.finetuning == "full"
    forward = least(
        card, of.read(micro * row) - of.head, 2.0 * micro * row * body, sequences / micro
    )
    floors = {
        "old log-probs": least(card, 0.0, 2.0 * sequences * row * body),
        "reference log-probs": least(card, 0.0, 2.0 * sequences * row * body),
        "policy forward": forward,
        "policy backward": (1 + trains + (plan.gradient_checkpointing == "full")) * forward,
        "rollout": generated(of, plan, card),
    }
    for phase in footprint.phases:
        if phase.seconds is not None and phase.name in floors:
            told = f"{plan.framework}, {plan.gpu}, {plan.finetuning}, {micro} x {row:,}"
            if phase.name == "rollout":
                told += f", {plan.rollout_tensor_parallel} GPUs"
            yield Check(f"{phase.name}, {told}", float(phase.seconds), floors[phase.name])


def generated(of: Sizes, plan: Plan, card: Gpu) -> float:
    """A rollout: every response's tokens, at most ``max_num_seqs`` of an engine at a time."""
    parts = plan.rollout_tensor_parallel
    sequences = plan.prompts_per_step * plan.responses_per_prompt * parts / plan.gpus
    rounds = math.ceil(sequences / plan.max_num_seqs)
    steps = plan.response_tokens - 1
    cached = sum(of.attended(plan.prompt_tokens + token, parts) for token in range(1, steps + 1))
    read = rounds * steps * of.read(sequences / rounds) / parts + sequences * cached
    flops = 2.0 * sequences * steps * of.active / parts
    return least(card, read, flops)


def checks(model: Model) -> Iterator[Check]:
    """All of a model."""
    yield from engine_checks(model)
    yield from step_checks(model)


def table() -> dict[str, Any]:
    """What is committed: the least ratio of each model, and every time below its floor."""
    found: dict[str, Any] = {}
    broken: list[str] = []
    for model in models():
        if model.architecture is None:
            continue
        asked = list(checks(model))
        closest = min(asked, key=lambda one: one.ratio)
        found[model.id] = {
            "times": len(asked),
            "closest": closest.what,
            "by_floor": round(closest.ratio, 3),
        }
        broken += [f"{model.id}: {one.what}: {one.ratio:.3f}" for one in asked if one.ratio < 1]
    return {
        "about": "Times by their floors: bytes by bandwidth or FLOPs by peak, whichever is longer, "
        "from each model's config; written by python -m accuracy.floors.",
        "times": sum(one["times"] for one in found.values()),
        "broken": broken,
        "models": found,
    }


def drawn(seed: int, count: int) -> list[tuple[Model, Mapping[str, Any]]]:
    """Models of the catalog, mixtures first, each with one step to be asked for."""
    chosen = random.Random(seed)
    known = [one for one in models() if one.architecture is not None]
    mixtures = [one for one in known if sizes(one).experts]
    others = chosen.sample([one for one in known if one not in mixtures], count)
    return [(one, chosen.choice(STEPS)) for one in (*mixtures, *others)]


if __name__ == "__main__":
    told = table()
    FILE.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    print(f"{told['times']:,} times of {len(told['models'])} models, {len(told['broken'])} broken")
    print("\n".join(told["broken"][:40]))
