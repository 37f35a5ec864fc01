"""Trainers that have no folder here yet, by what starts them or what their configuration says.

A script of one is recognised, its settings are listed as they were read, and no verdict is given
in another framework's words. Read in the projects' own documentation and entry points, 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

STARTED_BY: tuple[tuple[str, str], ...] = (
    (r"openrlhf(\.cli)?\.", "OpenRLHF"),
    (r"^verl\.trainer\.main$", "EasyR1"),
    (r"^(swift|megatron) \w+$|^swift(\.|/)", "ms-swift"),
    (r"^llamafactory-cli|^llamafactory|(^|/)src/train\.py$", "LLaMA-Factory"),
    (r"^axolotl|axolotl\.cli", "axolotl"),
    (r"skyrl(_train|_gym|\.)?", "SkyRL"),
    (r"nemo_rl|(^|/)examples/run_\w+\.py$", "NeMo-RL"),
    (r"^(rl|trainer|inference|prime-rl)$|prime_rl", "prime-rl"),
    (r"slime", "slime"),
    (r"areal", "AReaL"),
    (r"(^|/)start_rlvr\w*\.py$|(^|[./])roll\.", "ROLL"),
    (r"^tune run|torchtune", "torchtune"),
    (r"unsloth", "Unsloth"),
    (r"pretrain_gpt\.py|megatron\.", "Megatron-LM"),
)
"""A pattern of a program's name, and whose program that is."""

SAID_BY: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"stage", "finetuning_type", "cutoff_len"}), "LLaMA-Factory"),
    (frozenset({"base_model", "micro_batch_size", "sequence_len"}), "axolotl"),
    (frozenset({"policy", "loss_fn", "cluster"}), "NeMo-RL"),
    (frozenset({"trainer", "orchestrator"}), "prime-rl"),
    (frozenset({"train_type", "rlhf_type"}), "ms-swift"),
    (frozenset({"recipe", "tokenizer", "_component_"}), "torchtune"),
    (frozenset({"worker", "data"}), "EasyR1"),
)
"""Names that a configuration has together, two at least, and whose it is."""

WRITTEN_WITH = {
    "FastLanguageModel": "Unsloth",
    "FastModel": "Unsloth",
    "FastVisionModel": "Unsloth",
}
"""Calls of a script that change another framework's step, and whose they are."""
SPOKEN_TO = (
    (
        frozenset(
            ("--actor-num-gpus-per-node", "--rollout-batch-size", "--n-samples-per-prompt")
            + ("--sglang-mem-fraction-static", "--rollout-num-gpus", "--rollout-max-response-len")
        ),
        "slime",
    ),
)
"""Options that a command has together, two at least, where its program's name says nothing."""

BESIDE: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"compute_environment", "distributed_type", "num_processes"}), "accelerate"),
    (frozenset({"zero_optimization", "train_batch_size", "bf16", "fp16"}), "DeepSpeed"),
)
"""The same of files that go with a script, and make no run by themselves."""


def trainer_of(program: str) -> str:
    """Whose trainer a program is, by its name; empty: nobody's known here."""
    found = (name for pattern, name in STARTED_BY if re.search(pattern, program[:300]))
    return next(found, "")


def configured_for(names: Collection[str]) -> str:
    """Whose configuration has settings of these names at its top; empty: nobody's known here."""
    return _closest(names, SAID_BY)


def beside_of(names: Collection[str]) -> str:
    """Whose file it is that goes with a script; empty: nobody's known here."""
    return _closest(names, BESIDE)


def written_with(names: Iterable[str]) -> str:
    """Whose a script is that calls these; empty: nobody's known here."""
    return next((WRITTEN_WITH[one] for one in names if one in WRITTEN_WITH), "")


def spoken_to(words: Collection[str]) -> str:
    """Whose a command with these words is; empty: nobody's known here."""
    return _closest(words, SPOKEN_TO)


def _closest(names: Collection[str], known: Iterable[tuple[frozenset[str], str]]) -> str:
    best = max(known, key=lambda each: len(each[0] & set(names)))
    return best[1] if len(best[0] & set(names)) >= 2 else ""
