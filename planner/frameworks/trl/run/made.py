"""A trainer of TRL's, made as its script makes it from what an export writes, and its batches."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from planner.frameworks.trl.own import Own
from planner.frameworks.trl.own_step import arguments, own_of
from planner.launch.script import yaml_text
from planner.plan import Plan

trl: Any = import_module("trl")  # which exports by a table that no type checker reads

STEPS = 2
"""The first step makes the optimizer's state; the second is the steady one."""
ENOUGH = 2
"""Micro-batches of a step that are run: the second finds gradients."""
OURS = {
    "max_steps": STEPS,
    "save_strategy": "no",
    "logging_strategy": "no",
    "disable_tqdm": True,
    # Without a GPU torch's own parser refuses bf16, unless it is told so.
    "use_cpu": True,
}
"""Arguments that are not the export's: two steps, and nothing written or said."""
REWARDS = "reward_funcs"


def trainer_of(plan: Plan, folder: Path, model: str = "") -> Any:
    """The plan's trainer, made as TRL's script makes it.

    Args:
        plan: what to make it of; its arguments are the export's, read by TRL's own parser.
        folder: an empty folder for the YAML and for what TRL wants to write.
        model: a checkpoint to load in place of the plan's.
    """
    own: Own | None = own_of(plan)
    assert own is not None
    config, settings = _parsed(plan, own, folder, model)
    kind = getattr(trl, own.trainer)
    kinds: dict[str, Any] = {"reward_funcs": _reward} if own.rows == "prompts" else {}
    return kind(
        model=settings.model_name_or_path,
        args=config,
        train_dataset=Dataset.from_list([ROWS[own.rows]] * 2),
        processing_class=_tokenizer(),
        quantization_config=trl.get_quantization_config(settings),
        peft_config=trl.get_peft_config(settings),
        **kinds,
    )


def _parsed(plan: Plan, own: Own, folder: Path, model: str) -> tuple[Any, Any]:
    """As ``trl.scripts`` do: a YAML through TRL's parser, the model's settings into the config."""
    values = {key: value for key, value in arguments(plan).items() if key != REWARDS} | OURS
    if model:
        values["model_name_or_path"] = model
    given = folder / "arguments.yaml"
    given.write_text(yaml_text({**values, "output_dir": str(folder)}), "utf-8")
    parser = trl.TrlParser((getattr(trl, own.config), trl.ModelConfig))
    config, settings = parser.parse_args_and_config(
        ["--config", str(given)], fail_with_unknown_args=True
    )
    config.model_init_kwargs = {
        "revision": settings.model_revision,
        "attn_implementation": settings.attn_implementation,
        "dtype": settings.dtype,
    }
    return config, settings


def _reward(completions: list[str], **_: Any) -> list[float]:
    return [float(place) for place, _ in enumerate(completions)]


ROWS: dict[str, dict[str, str]] = {
    "text": {"text": "a b"},
    "pairs": {"prompt": "a", "chosen": " b", "rejected": " a"},
    "prompts": {"prompt": "a"},
}
"""What the constructors look at; batches are not made of it."""


def _tokenizer() -> Any:
    words = {"<pad>": 0, "<end>": 1, "a": 2, "b": 3}
    inner = Tokenizer(models.WordLevel(words, unk_token="a"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    kind: Any = PreTrainedTokenizerFast
    return kind(tokenizer_object=inner, pad_token="<pad>", eos_token="<end>")


def fed(trainer: Any, plan: Plan) -> None:
    """The trainer's batches are as many as show a step's peak, at the plan's caps."""
    count = min(ENOUGH, trainer.args.gradient_accumulation_steps)
    trainer.get_train_dataloader = lambda: _batches(trainer, plan, count)


def _batches(trainer: Any, plan: Plan, count: int) -> list[Any]:
    """Micro-batches of a step at the plan's caps, by the trainer's own collator.

    Trainers that sample are given prompts for the whole generation at once, as their sampler does.
    """
    own: Own | None = own_of(plan)
    assert own is not None
    size, prompt = plan.micro_batch_size, plan.prompt_tokens
    if own.rows == "prompts":
        size *= trainer.args.steps_per_generation
        return [[dict(ROWS["prompts"]) for _ in range(size)]] * count
    rows = [
        {"input_ids": ids, "labels": ids}
        if own.rows == "text"
        else {"prompt_ids": ids[:prompt], "chosen_ids": ids[prompt:], "rejected_ids": ids[prompt:]}
        for ids in ([2] * (prompt + length) for length in _lengths(plan, size))
    ]
    return [trainer.data_collator(rows) for _ in range(count)]


def _lengths(plan: Plan, count: int) -> list[int]:
    """Tokens of each response: the cap; of padded rows the last of a micro-batch has one less."""
    size = plan.micro_batch_size
    short = plan.batch_shape == "padded" and size > 1
    return [plan.response_tokens - (short and place % size == size - 1) for place in range(count)]


def generated(trainer: Any, plan: Plan, before: Callable[[], None]) -> None:
    """Responses come with the batch, each as long as the cap: nothing is generated."""
    if not hasattr(trainer, "_generate"):
        return

    def given(prompts: list[str]) -> tuple[Any, ...]:
        before()
        count, lengths = len(prompts), _lengths(plan, len(prompts))
        ids = [[2] * plan.prompt_tokens] * count, [[2] * length for length in lengths]
        if not hasattr(trainer, "rollout_func"):
            return (*ids, ["a"] * count)
        sampled = [[0.0] * length for length in lengths] if trainer.use_vllm else None
        return (*ids, None, ["a"] * count, sampled, {}, None, [])

    trainer._generate = given
