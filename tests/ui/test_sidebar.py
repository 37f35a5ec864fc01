"""The sidebar: what differs and the way back, presets, models, batches in a framework's words."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from streamlit.testing.v1 import AppTest

from planner.launch.export import export, following
from planner.launch.launch import CannotExpress
from planner.plan import Plan
from planner.plan.fields import NOT_MODELLED, REFUSED
from planner.plan.frameworks import frameworks
from planner.plan.plan import ROWS
from planner.plan.presets import presets
from planner.plan.query import to_query
from planner.plan.rules import ASKING
from planner.plan.trainers import exporting
from planner.rule import Rule
from planner.ui.state import draft as drafts
from planner.wording.fields import help_text, label, labelled
from ui.opened_pages import field, has, link_of, opened, unfold, words

START = drafts.of_plan(presets()["ppo-7b@1"].plan, "ppo-7b@1")


def differing(**query: str) -> AppTest:
    """A page with the list of differences open."""
    app = opened(v="1", preset="grpo-7b@1", **query)
    app.session_state["open:differences"] = True
    return app.run()


def test_what_differs_opens_with_labels_and_a_way_back_for_each() -> None:
    app = differing(gpus="16", response_tokens="4096")
    said = words(app).replace("\\", "")
    assert "**Number of GPUs**  \n8 → 16" in said
    assert "**Response length**  \n2,048 → 4,096" in said
    app.button(key="back:gpus").click().run()
    assert link_of(app)["gpus"] == "8" and link_of(app)["response_tokens"] == "4096"
    assert "**Number of GPUs**" not in words(app)
    assert "**Response length**" in words(app)  # the list stays open
    app.button(key="back:response_tokens").click().run()
    assert app.button(key="start-over").label == "Nothing changed yet"


def test_nothing_of_the_differences_is_drawn_while_they_are_closed() -> None:
    app = opened(v="1", preset="grpo-7b@1", gpus="16")
    assert "**Number of GPUs**" not in words(app)
    assert not [button.key for button in app.button if str(button.key).startswith("back:")]


def test_a_method_goes_back_with_what_followed_it() -> None:
    after = drafts.edited(START, {"method": "grpo"})
    assert {"method", "critic"} <= {*after.changed()}
    back = drafts.restored(after, "method")
    assert back.plan == START.plan and back.changed() == ()


def test_a_field_goes_back_alone() -> None:
    after = drafts.edited(drafts.edited(START, {"gpus": 16}), {"response_tokens": 4096})
    back = drafts.restored(after, "response_tokens")
    assert back.changed() == ("gpus",) and back.plan is not None
    assert "response_tokens" in after.chosen and {*back.chosen} == {*START.chosen, "gpus"}


def test_presets_begin_with_common_ones_and_have_the_newest_of_each() -> None:
    titles = opened().selectbox(key="preset").options
    kinds = [
        ("Recipe · ", "Worked example · ").index(title.partition("· ")[0] + "· ") + 1
        if " · " in title
        else 0
        for title in titles
    ]
    assert kinds == sorted(kinds) and kinds.index(1) == 6 and kinds.index(2) == 12
    title = "Worked example · GRADE, 4B with LoRA, nothing optimized"
    assert title in titles and f"{title} (release 1)" not in titles
    assert len(set(titles)) == len(titles)
    old = opened(v="1", preset="doc-001-legacy@1").selectbox(key="preset")
    assert old.value == "doc-001-legacy@1" and f"{title} (release 1)" in old.options


def test_a_recipe_has_what_was_published_beside_its_estimate() -> None:
    app = opened(v="9", preset="torchtune-8b-lora@1")
    said = words(app)
    assert "Published: 16.2 GiB peak" in said and "Headroom: 17." in said
    assert "https://github.com/pytorch/torchtune/blob/" in said
    app.selectbox(key="preset").set_value("grpo-7b@1").run()
    assert not app.exception and "Published:" not in words(app)


def test_models_come_by_popularity_with_their_sizes() -> None:
    options = field(opened(), "model").options
    assert options[0] == "Qwen/Qwen3-8B · 8.2B"
    assert "Qwen/Qwen3-30B-A3B · 30.5B, 3.4B active" in options[:5]
    assert options.index("Qwen/Qwen2.5-7B · 7.6B") < options.index("openai-community/gpt2 · 124M")
    assert options[-1] == "Other model…"


def test_a_step_is_explained_by_its_parts_and_in_the_frameworks_options() -> None:
    said = words(opened(v="1", preset="grpo-lora-1gpu@1")).replace("\\", "")
    assert "8 prompts × 8 responses = 64 sequences a step = 1 GPU × 16 accumulation steps" in said
    assert "TRL: per_device_train_batch_size 4 · gradient_accumulation_steps 16 · num_gen" in said
    app = opened(v="1", preset="grpo-7b@1", prompts_per_update="32")
    assert "512 sequences a step = 2 updates × 8 GPUs × 8 accumulation steps × 4 per" in words(app)
    field(app, "prompts_per_step").set_value(65).run()
    assert "520 sequences a step, which do not divide over 3 updates and 8 GPUs" in words(app)


def test_labels_are_the_frameworks_own_and_follow_it() -> None:
    app = opened(v="1", preset="grpo-7b@1")
    app.session_state["open:group:batch"] = True
    assert field(app.run(), "micro_batch_size").label == "Micro-batch, sequences per GPU"
    field(app, "framework").set_value("trl").run()
    assert "Per-device train batch size" in field(app, "micro_batch_size").label
    assert "TRL: `per_device_train_batch_size`" in field(app, "micro_batch_size").help
    field(app, "framework").set_value("verl").run()
    assert field(app, "prompts_per_step").label == "Train batch size"
    assert field(app, "prompts_per_update").label == "PPO mini-batch size, prompts"
    field(app, "prompts_per_update").set_value(7).run()
    assert "**PPO mini-batch size** (under Mini- and micro-batches)" in words(app)


MORE: tuple[dict[str, Any], ...] = (
    {},
    {"max_tokens_per_micro_batch": 16_384},
    {"finetuning": "lora"},
    {"save_steps": 10, "eval_steps": 10},
    {"liger": True},
    {"compile": True},
    {"empty_cache": "every-step"},
    {"kv_cache_dtype": "fp8"},
    {"rollout_quantization": "fp8"},
    {"async_scheduling": False},
    {"sync_bucket_bytes": 2**31},
    {"model": "Qwen/Qwen3-30B-A3B", "rollout_tensor_parallel": 2, "rollout_expert_parallel": True},
)
"""Choices with which every option is written that a word names."""
WORDED = [name for name in exporting("grpo") if frameworks()[name].words]


@pytest.mark.parametrize("name", WORDED)
def test_every_option_that_a_word_names_is_in_the_frameworks_script(name: str) -> None:
    plan = presets()["grpo-7b@1"].plan
    texts = []
    for more in MORE:
        with suppress(CannotExpress):  # what a framework has no option for has no word either
            launch = export(following(plan.changed(**more), name, tuple(more)), name)
            texts += [file.text for file in launch.files]
    text = "\n".join(texts)
    options = {word.option for word in frameworks()[name].words.values()}
    options |= {*frameworks()[name].batch_options(plan)}
    assert options and not [option for option in options if option not in text]


@pytest.mark.parametrize("preset", ["grpo-7b@1", "ppo-7b@1", "grpo-lora-1gpu@1", "sft-8b@1"])
def test_a_script_has_the_figures_that_the_sidebar_says(preset: str) -> None:
    plan = presets()[preset].plan
    name = plan.framework if plan.framework in WORDED else WORDED[0]
    runs = following(plan, name, ())
    text = "\n".join(file.text for file in export(runs, name).files)
    for option, value in frameworks()[name].batch_options(runs).items():
        assert any(f"{option}{by}{value}" in text for by in ("=", ": ", " ", '": ')), option


OWN = (one for each in frameworks().values() for one in each.rules if isinstance(one, Rule))
RULES = (*NOT_MODELLED, *REFUSED, *ASKING, *OWN)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.field}: {rule.message[:40]}")
def test_no_rule_tells_a_page_a_fields_name(rule: Rule) -> None:
    said = f"{labelled(rule.message, rule.field)} {labelled(rule.fix, rule.field)}"
    assert not [word for word in said.split() if "_" in word and word != "lm_head"]


def test_values_stand_as_their_lists_show_them() -> None:
    said = labelled("Set sharding to ddp or fsdp2, or gpus to 1.")
    assert said == "Set “Sharding” to DDP or FSDP2, or “Number of GPUs” to 1."
    engine = labelled("Set rollout to hf, vllm-colocated or vllm-separate.")
    assert engine.endswith("generate”, “vLLM, colocated” or “vLLM, GPUs of its own”.")
    assert labelled("Set compile to false.") == "Set “torch.compile” to off."
    assert labelled("Choose full or lora.", "finetuning") == "Choose Full or LoRA."
    both = labelled("Set offload to none, or optimizer to adamw-8bit.")
    assert both == "Set “Offload weights and optimizer” to none, or “Optimizer” to “AdamW, 8-bit”."
    # Words of the language stay.
    assert labelled("A reward model scores; the optimizer steps.").count("“") == 0


def test_the_framework_is_in_sight() -> None:
    assert has(opened(), "framework")


def test_a_link_that_was_cut_off_is_told_in_labels() -> None:
    plan = presets()["grpo-lora-1gpu@1"].plan
    text = urlencode(to_query(plan, "grpo-lora-1gpu@1")).partition("uning=")[0]
    app = opened(**dict(parse_qsl(text, keep_blank_values=True)))
    said = words(app).replace("\\", "")
    assert "1 part of this link" in said and "The link was cut off" in said
    assert "from “Fine-tuning” to “Autocast”" in said


EMPTY = [name for name, row in ROWS.items() if row.empty]


def test_no_label_is_a_manual() -> None:
    assert not [name for name in ROWS if re.search(r"\b0\b", label(name))]
    assert not [name for name in EMPTY if re.search(r"\b0 is\b|\b0:", help_text(name))]
    assert label("shard_size") == "Shard group size, GPUs"
    assert label("resampling_factor") == "Dynamic sampling: generation multiplier"
    assert label("empty_cache") == "torch.cuda.empty_cache()"


def test_an_empty_input_says_what_it_means_and_the_plan_keeps_its_nought() -> None:
    app = unfold(opened(v="1", preset="grpo-7b@1"), "hardware")
    shard, ram = field(app, "shard_size"), field(app, "host_ram_per_node")
    assert (shard.value, shard.placeholder) == (None, "all")
    assert (ram.value, ram.placeholder) == (None, "unknown")
    shard.set_value(4)
    ram.set_value(1024.0).run()
    assert link_of(app)["shard_size"] == "4" and field(app, "shard_size").value == 4
    assert link_of(app)["host_ram_per_node"] == str(2**40)
    for name in ("shard_size", "host_ram_per_node"):
        field(app, name).set_value(None).run()
        assert link_of(app)[name] == "0" and field(app, name).value is None
    field(app, "shard_size").set_value(0).run()
    assert field(app, "shard_size").value is None


def test_an_input_that_may_not_be_empty_is_drawn_again_as_it_was() -> None:
    app = opened(v="1", preset="grpo-7b@1", gpus="16")
    field(app, "gpus").set_value(None).run()
    assert field(app, "gpus").value == 16 and link_of(app)["gpus"] == "16"


def test_nought_is_what_every_field_has_that_may_be_empty() -> None:
    """Otherwise the input would show a default that is not the plan's."""
    plan = presets()["grpo-7b@1"].plan
    assert all(type(getattr(plan, name))() == Plan.model_fields[name].default for name in EMPTY)
