"""Settings that verl had before 0.9.1 and no longer has, which hydra therefore refuses.

What each did is read in verl at b178a3cd (2026-01, 0.8.0.dev): ``trainer/config``, and the code
that takes it there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from planner.importer.reading import pattern

_SCORED = (
    "Before 0.9.1 verl could score responses by FSDP's own reward model, which was cut so. Now an "
    "engine serves it, and that is planned."
)
_PARTS = (
    *("strategy", "max_length", "micro_batch_size", "micro_batch_size_per_gpu"),
    *("use_dynamic_bsz", "forward_max_token_len_per_gpu", "ulysses_sequence_parallel_size"),
    *("model.fsdp_config", "model.use_remove_padding", "model.use_fused_kernels", "model.use_shm"),
)

_OLDER: tuple[tuple[Collection[str], tuple[Any, ...], str], ...] = (
    (
        (
            "data.sampler",  # data/legacy_data.yaml:110: which prompts come first
            "actor_rollout_ref.rollout.multi_turn.interaction_config_path",  # rollout.yaml:181
            "reward_model.launch_reward_fn_async",  # reward_model.yaml:72: when a CPU scores
            "reward_model.model.input_tokenizer",  # reward_model.yaml:29: text is tokenized anew
        ),
        (),
        "",
    ),
    (
        ("reward_model.use_reward_loop",),  # ppo/ray_trainer.py:288
        (True,),
        _SCORED,
    ),
    (
        ("trainer.use_legacy_worker_impl",),  # ppo/ray_trainer.py:310
        ("disable",),
        "Before 0.9.1 verl had other workers unless this was disable: what they hold is not "
        "planned.",
    ),
    (tuple(f"reward_model.{part}" for part in _PARTS), (), _SCORED),
)
"""Names, the values with which they were what 0.9.1 does, and which way others move it."""


def older(name: str, value: Any) -> str | None:
    """Which way an older setting moves memory or seconds; empty where it moves nothing.

    None: it is none of these.
    """
    for names, usual, why in _OLDER:
        if pattern(names).fullmatch(name):
            return "" if value in usual else why
    return None
