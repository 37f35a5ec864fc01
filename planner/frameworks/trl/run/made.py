"""A trainer of TRL's, made as its script makes it from what an export writes, and its batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, disable_progress_bars
from peft import get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.trainer_callback import PrinterCallback

from planner.frameworks.trl.own import Own
from planner.frameworks.trl.own_step import arguments, own_of
from planner.launch.huggingface.run.batches import ENOUGH, OURS, STEPS, Batches
from planner.launch.script import yaml_text
from planner.plan import Plan
from planner.plan.references import frozen_adapter

trl: Any = import_module("trl")  # which exports by a table that no type checker reads
disable_progress_bars()

REWARDS = "reward_funcs"


def trainer_of(
    plan: Plan, folder: Path, model: str = "", *, steps: int = STEPS, on_cpu: bool = True
) -> Any:
    """The plan's trainer, made as TRL's script makes it.

    Args:
        plan: what to make it of; its arguments are the export's, read by TRL's own parser.
        folder: an empty folder for the YAML and for what TRL wants to write.
        model: a checkpoint to load in place of the plan's.
        steps: optimizer steps that it will make.
        on_cpu: without a GPU transformers' own parser refuses bf16, unless it is told so.
    """
    own: Own | None = own_of(plan)
    assert own is not None
    ours = {**OURS, "max_steps": steps, "use_cpu": on_cpu}
    if model:
        ours["model_name_or_path"] = model
    config, settings = _parsed(plan, own, folder, ours)
    kind = getattr(trl, own.trainer)
    kinds: dict[str, Any] = {"reward_funcs": _reward} if own.rows == "prompts" else {}
    adapters = trl.get_peft_config(settings)
    policy: Any = settings.model_name_or_path
    if frozen_adapter(plan):
        policy, adapters = _adapted(kind, config, policy, adapters), None
    made = kind(
        model=policy,
        args=config,
        train_dataset=Dataset.from_list([ROWS[own.rows]] * 2),
        processing_class=_tokenizer(),
        quantization_config=trl.get_quantization_config(settings),
        peft_config=adapters,
        **kinds,
    )
    made.remove_callback(PrinterCallback)
    return made


def _adapted(kind: Any, config: Any, path: str, adapters: Any) -> Any:
    """A model with adapters of its own: of these TRL itself keeps a frozen copy, ``ref``.

    Loaded as the trainer would. peft moves its first adapter to where the model is, and another
    one only between two devices that have values.
    """
    told, config.model_init_kwargs = config.model_init_kwargs, None
    base = import_module(kind.__module__).create_model_from_path(path, **told)
    found: Any = get_peft_model(base, adapters)
    device, plain = next(found.parameters()).device, found.add_adapter

    def added(*given: Any, **named: Any) -> None:
        with torch.device(device):
            plain(*given, **named)

    found.add_adapter = added
    return found


def _parsed(plan: Plan, own: Own, folder: Path, ours: dict[str, Any]) -> tuple[Any, Any]:
    """As ``trl.scripts`` do: a YAML through TRL's parser, the model's settings into the config."""
    values = {key: value for key, value in arguments(plan).items() if key != REWARDS} | ours
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


def _micro_batches(trainer: Any, plan: Plan, count: int) -> list[Any]:
    """Of a step at its plan's caps, by the trainer's own collator.

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


def fed(trainer: Any, plans: Sequence[Plan], before: Callable[[], None] = lambda: None) -> None:
    """Batches come of the plans of the steps, and so do responses: nothing is generated.

    Args:
        trainer: what is fed.
        plans: of each step.
        before: called where an engine would wake.
    """
    batches = Batches(trainer, plans, partial(_micro_batches, trainer))
    if not hasattr(trainer, "_generate"):
        return

    def given(prompts: list[str]) -> tuple[Any, ...]:
        before()
        plan = batches.plan
        count, lengths = len(prompts), _lengths(plan, len(prompts))
        ids = [[2] * plan.prompt_tokens] * count, [[2] * length for length in lengths]
        if not hasattr(trainer, "rollout_func"):
            return (*ids, ["a"] * count)
        sampled = [[0.0] * length for length in lengths] if trainer.use_vllm else None
        return (*ids, None, ["a"] * count, sampled, {}, None, [])

    trainer._generate = given


def scored_in_part(trainer: Any) -> None:
    """Of the micro-batches scored without gradient two are run; the others' log-probs are there.

    As they are while the last one runs: of every token of a row, as the fused head gives them.
    """
    plain = getattr(trainer, "_get_per_token_logps_and_entropies", None)
    if plain is None:
        return

    @wraps(plain)
    def scored(
        model: Any, ids: Any, mask: Any, keep: int, batch_size: int | None = None, **kwargs: Any
    ) -> Any:
        count = ENOUGH * (batch_size or len(ids))
        if torch.is_grad_enabled() or len(ids) <= count:
            return plain(model, ids, mask, keep, batch_size=batch_size, **kwargs)
        shape = (len(ids) - count, ids.shape[1] - 1)
        others = torch.zeros(shape, dtype=torch.float32, device=ids.device)
        found, *more = plain(
            model, ids[:count], mask[:count], keep, batch_size=batch_size, **kwargs
        )
        return torch.cat([others[:, -keep:], found]), *more

    trainer._get_per_token_logps_and_entropies = scored
