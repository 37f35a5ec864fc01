"""Each field of a plan as a person meets it: label, group, unit and what the words mean.

The first sentence of a field's help is its description in :class:`planner.plan.Plan`;
here stands what that sentence presumes. A framework's own words for a batch stand in its room.
Imports no Streamlit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from planner.plan import Plan
from planner.plan.fieldtext import KINDS
from planner.plan.frameworks import OWN, framework_named
from planner.values.framework import Word
from planner.wording import choices
from planner.wording.choices import spoken
from planner.wording.display import say


@dataclass(frozen=True, slots=True)
class FieldText:
    """What stands at an input: ``label`` above it, ``more`` after the plan's description.

    ``said`` is the label in a sentence, where nothing beside it says what it is of; ``empty`` what
    an empty input means, whose value is then 0.
    """

    label: str
    more: str = ""
    unit: str = ""
    said: str = ""
    empty: str = ""


TEXTS: Mapping[str, FieldText] = {
    "model": FieldText(
        "Model",
        "Type or paste any Hub id; where the Hub is out of reach, “Other model…” takes the model's "
        "config.json.",
    ),
    "method": FieldText(
        "Method",
        "SFT imitates given answers and DPO learns from given pairs of answers; the other methods "
        "sample answers (rollouts) and reinforce good ones. PPO trains a second network (critic) "
        "that predicts rewards. GRPO and RLOO compare the answers of one prompt instead, and "
        "REINFORCE++ compares the answers of the whole batch. Intuitor is GRPO with the model's "
        "own certainty as reward. Variations of GRPO are in this list by their own names: DAPO, "
        "Dr. GRPO, GSPO and CISPO.",
    ),
    "variation": FieldText(
        "Variation",
        "Variations change how the loss clips and averages a few numbers per token, which changes "
        "neither memory nor time. A term that a variation leaves out, such as the KL term, changes "
        "both memory and time.",
    ),
    "gpu": FieldText(
        "GPU",
        "Capacity is what the driver reports, never the seller's figure: “80 GB” is a name. "
        "Cards marked unsupported can be planned by typing in their usable bytes.",
    ),
    "gpus": FieldText("Count", "GPUs of a separate engine are included.", said="Number of GPUs"),
    "prompt_tokens": FieldText(
        "Prompt", "Memory is planned for the longest prompt.", "tokens", "Prompt length"
    ),
    "response_tokens": FieldText(
        "Response", "Memory is planned for the longest response.", "tokens", "Response length"
    ),
    "mean_prompt_tokens": FieldText(
        "Mean prompt",
        "As logged: prompt_length/mean (verl). The step time depends on this mean where prompts "
        "are not padded: in packed rows, and in an engine. Memory stays planned for the longest "
        "prompt.",
        "tokens",
        "Mean prompt length",
        empty="same as max",
    ),
    "responses_per_prompt": FieldText(
        "Responses/prompt", "They form the group whose rewards GRPO, RLOO and Intuitor compare."
    ),
    "finetuning": FieldText(
        "Fine-tuning",
        "full trains every weight; LoRA trains two thin matrices (an adapter) beside each "
        "projection and leaves the weights frozen; QLoRA also stores those in 4 bits.",
    ),
    "prompts_per_step": FieldText("Prompts per step"),
    "prompts_per_update": FieldText(
        "Mini-batch", "The number of prompts in a step is a multiple of the mini-batch.", "prompts"
    ),
    "micro_batch_size": FieldText(
        "Micro-batch",
        "A smaller micro-batch with more gradient accumulation takes less memory and gives the "
        "same result.",
        "sequences per GPU",
    ),
    "logprob_micro_batch_size": FieldText(
        "Log-prob micro-batch",
        "For the forwards that compute log-probs of the old policy and of the reference.",
        "sequences per GPU",
    ),
    "max_tokens_per_micro_batch": FieldText(
        "Max tokens per micro-batch",
        "Dynamic batching: a micro-batch takes as many sequences as fit in this budget.",
        empty="off",
    ),
    "batch_shape": FieldText(
        "Padding and packing",
        "padded: shorter sequences are filled up and masked. packed: sequences stand in one "
        "row without filling. full: all have the same length.",
    ),
    "validation_response_tokens": FieldText("Validation response", unit="tokens"),
    "dtype": FieldText("Compute dtype", "bf16 and fp16 take two bytes a number, fp32 takes four."),
    "master_dtype": FieldText(
        "Master weights", "An fp32 copy keeps small updates that bf16 would round away."
    ),
    "autocast": FieldText(
        "Autocast of adapters",
        "With autocast, adapters multiply with half-precision copies of their fp32 weights, as "
        "under Trainer's bf16. Without autocast, the adapters' inputs are cast to fp32 and the "
        "adapters compute in fp32.",
    ),
    "base_dtype": FieldText(
        "Frozen weights",
        "fp32: what adapters leave alone is loaded in fp32 and computed with in half precision. "
        "With QLoRA that is what peft's prepare_model_for_kbit_training does to embeddings, norms "
        "and the head.",
    ),
    "gradient_dtype": FieldText("Gradients"),
    "reduce_dtype": FieldText("Gradient reduction", "Dtype in which GPUs add up their gradients."),
    "logits_dtype": FieldText(
        "Logits dtype",
        "Logits are one number per token and vocabulary entry; the upcast to fp32 makes a second "
        "copy of all logits.",
    ),
    "optimizer": FieldText(
        "Optimizer",
        "AdamW keeps two numbers (moments) per trained weight. fused updates in place; foreach "
        "needs a temporary of a moment's size; 8-bit stores the moments in one byte each; paged "
        "(bitsandbytes) keeps those in memory that the driver moves to host RAM when the GPU has "
        "no room.",
    ),
    "optimizer_step": FieldText(
        "Optimizer steps",
        "update: once for all micro-batches of a mini-batch, whose gradients add up (gradient "
        "accumulation). micro-batch: after each of them. in-backward: each weight as soon as its "
        "gradient is there, which is freed at once; their norm cannot be clipped then.",
    ),
    "lora_rank": FieldText(
        "LoRA rank", "The rank is the number of columns of an adapter's thin matrices."
    ),
    "lora_targets": FieldText(
        "LoRA targets",
        "all-linear, or names such as q_proj,v_proj; gate_up_proj and down_proj are all experts "
        "of a mixture.",
    ),
    "lora_dropout": FieldText(
        "LoRA dropout", "Each adapter stores a mask of the dropped inputs for the backward."
    ),
    "gradient_checkpointing": FieldText(
        "Gradient checkpointing",
        "full keeps one tensor per layer and computes the rest again: about a third more "
        "time in the backward.",
    ),
    "activation_offload": FieldText(
        "Offload activations", "Needs full checkpointing; takes host RAM and PCIe traffic."
    ),
    "offload": FieldText(
        "Offload weights and optimizer",
        "between-phases moves it out only while it is not needed (verl); otherwise it stays "
        "out and the optimizer runs on the CPU.",
    ),
    "attention": FieldText(
        "Attention",
        "eager stores a score for every pair of tokens; the others never do. FlashAttention-3 runs "
        "on Hopper, is faster than FlashAttention-2 and keeps as much for the backward.",
    ),
    "logits": FieldText(
        "Cross-entropy",
        "full: logits of all tokens. response: of response tokens only. chunked: a slice of "
        "tokens at a time. fused: fused linear cross-entropy, which never stores the logits whole.",
    ),
    "chunk_tokens": FieldText(
        "Chunk of the head",
        "A chunk's logits are stored in fp32, in several copies during the backward.",
        "tokens",
    ),
    "chunk_compile": FieldText(
        "Compile the head's chunks",
        "With torch.compile, most of a chunk's fp32 tensors are never allocated.",
    ),
    "temperature": FieldText(
        "Temperature",
        "The loss also divides logits by the temperature. The division makes another copy of the "
        "logits in verl, and in any loss whose softmax runs in the logits' own dtype.",
    ),
    "liger": FieldText(
        "Liger kernels",
        "TRL's use_liger_kernel, verl's use_liger: norms, rotation and the gated MLP in Triton, "
        "which keep fewer activations. Liger does not change the loss, which stays the framework's "
        "own.",
    ),
    "compile": FieldText("torch.compile"),
    "empty_cache": FieldText(
        "torch.cuda.empty_cache()",
        "PyTorch caches freed memory for reuse; until that memory is returned, the driver counts "
        "it as used.",
    ),
    "expandable_segments": FieldText(
        "Expandable segments", "PYTORCH_ALLOC_CONF; less fragmentation."
    ),
    "kl": FieldText(
        "KL penalty",
        "Keeps the policy near the model it started from (the reference): in the loss, or "
        "taken off the reward.",
    ),
    "entropy": FieldText("Entropy bonus", "Rewards spread-out distributions."),
    "reference": FieldText(
        "Reference",
        "copy: a second model on the GPUs. offloaded: in host RAM outside its phase. "
        "adapter-disabled: the policy with LoRA switched off. frozen-adapter: with a second "
        "adapter that never trains. cached-logprobs: computed apart, before the run, or in each "
        "step by other GPUs where responses are sampled. "
        "cached-activations: so the last hidden states; the loss runs them through the "
        "reference's head. dual-output: one forward, in which every layer runs with LoRA and "
        "without.",
    ),
    "critic": FieldText(
        "Critic",
        "PPO's network that predicts rewards. shared: a second head on the policy's body, with "
        "one forward, one backward and one optimizer.",
    ),
    "critic_model": FieldText("Critic's model", "A Hub id of the catalog.", empty="same as policy"),
    "reward": FieldText(
        "Reward", "rule: code checks the answer. model: a network. remote: on other machines."
    ),
    "reward_model": FieldText("Reward model", "A Hub id of the catalog.", empty="same as policy"),
    "reward_seconds": FieldText(
        "Seconds per reward",
        "Time that a rule or another machine takes to score one response.",
        empty="no time",
    ),
    "reward_concurrency": FieldText("Rewards at once"),
    "resampling_factor": FieldText(
        "Dynamic sampling: generation multiplier",
        "DAPO throws away groups whose rewards are all equal and samples others in their place: 3 "
        "means that three times as many responses are sampled as are trained on. Dynamic sampling "
        "takes time and money, not memory.",
    ),
    "rollout": FieldText(
        "Engine",
        "vllm-colocated shares the training GPUs; vllm-separate has GPUs of its own; hf is "
        "transformers' generate.",
    ),
    "rollout_gpus": FieldText("GPUs of the engine"),
    "rollout_overlap": FieldText(
        "Overlap",
        "With one step off policy, engine and trainer work at the same time on successive batches. "
        "Asynchronously, the engine also does not wait for a batch to end.",
    ),
    "rollout_tensor_parallel": FieldText("Tensor parallel size", "GPUs of one engine."),
    "gpu_memory_utilization": FieldText(
        "GPU memory utilization",
        "Share of the GPU that vLLM reserves: weights, working memory, and the rest as KV cache "
        "(keys and values of tokens already processed). Between 0 and 1.",
    ),
    "vllm_sleep_level": FieldText("Sleep level"),
    "max_num_seqs": FieldText("Max sequences"),
    "max_num_batched_tokens": FieldText("Max batched tokens"),
    "enforce_eager": FieldText(
        "Eager mode",
        "CUDA graphs replay recorded kernels, so decoding is faster, and keep their buffers in "
        "memory.",
    ),
    "kv_cache_dtype": FieldText("KV cache", "fp8 halves the memory of each token."),
    "async_scheduling": FieldText(
        "Async scheduling",
        "The engine's host schedules the next step while the GPU computes, as vLLM does since "
        "0.14. With this off, or in older engines, host and GPU take turns at every token.",
    ),
    "rollout_expert_parallel": FieldText(
        "Expert parallel",
        "vLLM's enable_expert_parallel, verl's rollout.expert_parallel_size: each of an engine's "
        "GPUs has some experts whole, where it otherwise has a slice of every one.",
    ),
    "sync_bucket_bytes": FieldText(
        "Weight sync bucket",
        "verl's update_weights_bucket_megabytes: updated weights travel to the engine in buckets "
        "of this size, one beside the trainer, and three on each GPU of a separate engine.",
        "GiB",
        empty="framework's own",
    ),
    "rollout_quantization": FieldText(
        "Quantization",
        "fp8 (verl's rollout.quantization): the engine's layers have weights of one byte, which it "
        "reads and multiplies faster; embeddings and head stay. The engine then samples with "
        "weights that differ from the trained ones.",
    ),
    "framework": FieldText(
        "Framework",
        "Switching fills in the new framework's defaults for every setting that you did not "
        "choose, and says what changed.",
    ),
    "framework_version": FieldText("Framework version"),
    "torch_version": FieldText("PyTorch version"),
    "sharding": FieldText(
        "Sharding",
        "ddp: every GPU holds everything. fsdp2, zero3: weights, gradients and optimizer state "
        "are spread, layers are gathered when needed. zero1 spreads the optimizer, zero2 "
        "gradients too.",
    ),
    "shard_size": FieldText("Shard group size", unit="GPUs", empty="all"),
    "reshard_after_forward": FieldText("Reshard after forward"),
    "gpus_per_node": FieldText("GPUs per node"),
    "host_ram_per_node": FieldText("Host RAM per node", unit="GiB", empty="unknown"),
    "disk_bytes_per_second": FieldText(
        "Disk of a node",
        "Checkpoints and a cached reference wait for the disk. Where nobody says, 1,000 MiB/s are "
        "assumed.",
        "GiB/s",
        empty="unknown",
    ),
    "steps": FieldText("Steps of the run"),
    "save_steps": FieldText(
        "Checkpoint every",
        "TRL's save_steps, verl's trainer.save_freq. All GPUs wait while a checkpoint is written; "
        "the run's time and cost include this wait.",
        "steps",
        empty="never",
    ),
    "eval_steps": FieldText(
        "Validate every",
        "verl's trainer.test_freq. Training waits while responses to the validation set are "
        "generated; the run's time and cost include this wait.",
        "steps",
        empty="never",
    ),
    "validation_responses": FieldText(
        "Responses of a validation",
        "The number of prompts in the validation set times the responses to each prompt.",
        empty="none",
    ),
    "price_per_gpu_hour": FieldText("Price per GPU-hour", unit="USD", empty="list price"),
}
"""The words of every field that has an input."""


def speak_for(framework: Callable[[], str]) -> None:
    """Labels are in the words of the framework that this gives; until then in the first one's."""
    global _speaker
    _speaker = framework


def _usual() -> str:
    return OWN


_speaker: Callable[[], str] = _usual


def label(name: str) -> str:
    """What stands above the input, unit included; a batch in the framework's own terms."""
    text = TEXTS.get(name)
    if text is None:
        return short_label(name)
    led = _word(name).label or text.label
    return f"{led}, {text.unit}" if text.unit else led


def short_label(name: str) -> str:
    """The label without its unit, for sentences."""
    if name in TEXTS:
        return _word(name).label or TEXTS[name].said or TEXTS[name].label
    info = Plan.model_fields.get(name)
    return (info.title if info else None) or name.replace("_", " ").capitalize()


def _word(name: str) -> Word:
    """What the framework on the page calls the field."""
    return framework_named(_speaker()).words.get(name, Word(""))


def labelled(text: str, about: str = "") -> str:
    """A sentence with labels in place of the plan's field names, as the pages show it.

    Values stand as their list shows them, where a field's name leads to them; ``about`` is the
    field that “Choose …” in the sentence is about. Other names that are words of the language, too,
    stay.
    """
    found, place = "", 0
    while led := _LED.search(text, place):
        field = led["field"] or about
        values = _values(field, text[led.end() :], ordinary=led["by"] != " ")
        if not values:
            found, place = found + text[place : led.end()], led.end()
            continue
        said = "Choose " if led["field"] is None else f"“{short_label(field)}”{_BY[led['by']]}"
        found += text[place : led.start()] + said + "".join(map(partial(_said, field), values))
        place = led.end() + len("".join(values))
    return _NAMED.sub(lambda name: f"“{short_label(name[0])}”", found + text[place:])


_BY = {" ": " ", " to ": " to ", "=": " "}
_ALL = "|".join(sorted(Plan.model_fields, key=len, reverse=True))
_LED = re.compile(rf"\b(?:(?P<field>{_ALL})(?P<by> to |=| )|Choose )(?=[\w.])")
_NO_WORDS = [name for name in _ALL.split("|") if "_" in name or name in ("finetuning", "gpus")]
_NAMED = re.compile(rf"\b({'|'.join(_NO_WORDS)})\b")
_NEXT = re.compile(r"(,? or to |,? or |, )(?=[\w.])")
_NUMBER = re.compile(r"true|false|[\d.]+")
_VALUE = re.compile(r"[\w.+-]*\w")


def _values(field: str, text: str, *, ordinary: bool) -> list[str]:
    """The field's values that the text begins with, and what stands between them."""
    found: list[str] = []
    place, between = 0, ""
    while value := _VALUE.match(text, place):
        known = bool(field) and value[0] in choices.options(field)
        number = KINDS.get(field) in (bool, int, float) and _NUMBER.fullmatch(value[0])
        language = not ordinary and "_" not in field and _is_word(value[0])
        if not (known or number) or language or text.startswith(" to ", value.end()):
            break
        found += [between, value[0]] if between else [value[0]]
        after = _NEXT.match(text, value.end())
        if number or after is None:
            break
        between, place = after[0], after.end()
    return found


def _is_word(value: str) -> bool:
    """Whether a value is a word of the language, too: after a name alone it may mean that."""
    return bool(re.fullmatch(r"[a-z]+", value)) and value not in ("ddp", "hf", "qlora", "lora")


def _said(field: str, part: str) -> str:
    if part in ("true", "false"):
        return say(part == "true")
    name = choices.called(field, part) if part in choices.options(field) else part
    return f"“{name}”" if name != part and " " in name else name


def changes_in_words(changes: Mapping[str, Any]) -> str:
    """Fields by label with the values they get."""
    found = changes.items()
    return ", ".join(f"{short_label(field)} → {spoken(field, value)}" for field, value in found)


def when_empty(name: str) -> str:
    """What an empty input of the field means, which stands in it; empty where none may be so."""
    return TEXTS[name].empty if name in TEXTS else ""


def meaning(name: str) -> str:
    """The plan's description of the field, of its input: one that is empty where the field is 0."""
    said = Plan.model_fields[name].description or ""
    return re.sub(r"\b0(?= is|:)", "empty", said) if when_empty(name) else said


def help_text(name: str) -> str:
    """What the field means: the plan's description, the words in it, its option, the link's key."""
    more = TEXTS[name].more if name in TEXTS else _own(name)
    option = _word(name).option if name in TEXTS else ""
    own = f"{framework_named(_speaker()).label}: `{option}`. " if option else ""
    return f"{meaning(name)} {more}".strip() + f"\n\n{own}Field `{name}`"


def _own(name: str) -> str:
    """What a method says of its own field besides its description."""
    extra = Plan.model_fields[name].json_schema_extra
    return str(extra.get("more", "")) if isinstance(extra, dict) else ""
