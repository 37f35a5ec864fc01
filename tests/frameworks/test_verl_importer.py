"""Commands of verl read into plans, and verl's own reading of the same words."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf

from frameworks.test_verl_settings import PACKAGE
from planner.frameworks.verl.importer import PROGRAMS, imported, resolved, takes
from planner.frameworks.verl.settings.hydra_words import LONGEST, MOST_WORDS, parsed
from planner.importer.given import Launch, Open, Word
from planner.importer.reading import Entry, Reading
from planner.importer.shell import read_shell
from planner.importer.yaml_text import read_yaml
from planner.launch.export import fitted
from planner.plan import Plan
from round_trips import drawn, launched, tried

PROGRAM, APART = PROGRAMS
ACTOR, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))


def _launch(*words: str, program: str = PROGRAM, **environment: str) -> Launch:
    variables = {name: Word(text) for name, text in environment.items()}
    return Launch(program, tuple(map(Word, words)), environment=variables)


def _read(*words: str, **more: Any) -> Reading:
    named = any(word.startswith(f"{ROLLOUT}.name=") for word in words)
    return imported(_launch(*([] if named else [f"{ROLLOUT}.name=vllm"]), *words, **more))


def _named(entries: list[Entry]) -> dict[str, Entry]:
    return {one.name: one for one in entries}


def test_a_plan_comes_back_from_its_export() -> None:
    for plan in drawn("verl", 100, seed=7):
        assert not tried(plan), plan


CONFIGS = {
    PROGRAM: ("trainer/config", "ppo_trainer"),
    APART: ("experimental/one_step_off_policy/config", "one_step_off_ppo_trainer"),
}


def _verls(launch: Launch) -> Any:
    """verl's configuration of a command, resolved by OmegaConf."""
    folder, name = CONFIGS[launch.program]
    with initialize_config_dir(str(PACKAGE / folder), version_base=None):
        config = compose(name, overrides=[word.text for word in launch.arguments])
    return OmegaConf.to_container(config, resolve=True, throw_on_missing=False)


def _at(values: Any, name: str) -> Any:
    for part in name.split("."):
        if not isinstance(values, Mapping) or part not in values:
            return ...
        values = values[part]
    return values


def _ours(launch: Launch) -> dict[str, Any]:
    rows, givens = resolved(PROGRAMS[launch.program], parsed(launch.arguments).givens)
    return {row.name: row.default for row in rows} | {one.name: one.value for one in givens}


WHOLE = {f"{MODEL}.override_config", f"{ROLLOUT}.engine_kwargs.vllm"}
"""Dictionaries whose entries are settings of their own here."""


def test_verl_itself_resolves_every_setting_of_an_export_to_the_same_value() -> None:
    compared = 0
    for plan in drawn("verl", 12, seed=11):
        launch = launched(plan)
        # Paths are variables of the person's, which verl does not see.
        launch = replace(launch, arguments=tuple(one for one in launch.arguments if one.known))
        theirs, ours = _verls(launch), _ours(launch)
        for name in ours.keys() - WHOLE:
            if (found := _at(theirs, name)) is not ...:
                assert found == ours[name], name
                compared += 1
    assert compared > 12 * 200


INTERPOLATED = (
    f"{ACTOR}.use_dynamic_bsz=True",
    f"{ACTOR}.ppo_max_token_len_per_gpu=9000",
    f"{ROLLOUT}.max_model_len=${{data.max_prompt_length}}",
    f"{ROLLOUT}.n=${{oc.select:critic.ppo_epochs,5}}",
    "critic.ppo_max_token_len_per_gpu=7",
    f"{ROLLOUT}.max_num_seqs=${{.n}}",
    f"{MODEL}.path=Qwen/${{oc.select:trainer.nothing,Qwen3-4B}}",
    "trainer.nnodes=${oc.select:trainer.nothing,null}",
)


def test_interpolations_are_omegaconfs() -> None:
    launch = _launch(*INTERPOLATED)
    theirs, ours = _verls(launch), _ours(launch)
    names = [word.partition("=")[0] for word in INTERPOLATED]
    names += [f"{ROLLOUT}.log_prob_max_token_len_per_gpu", "critic.forward_max_token_len_per_gpu"]
    assert {name: ours[name] for name in names} == {name: _at(theirs, name) for name in names}
    assert ours[f"{ROLLOUT}.n"] == 1 and ours[f"{MODEL}.path"] == "Qwen/Qwen3-4B"


def test_group_advantages_on_one_node() -> None:
    found = _read(
        "algorithm.adv_estimator=grpo",
        "data.train_batch_size=1024",
        "data.max_prompt_length=512",
        "data.max_response_length=1024",
        f"{MODEL}.path=/models/Qwen/Qwen2.5-7B",
        f"{MODEL}.use_remove_padding=True",
        f"{ACTOR}.ppo_mini_batch_size=256",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=16",
        f"{ACTOR}.use_kl_loss=True",
        f"{ACTOR}.fsdp_config.param_offload=False",
        f"{ACTOR}.fsdp_config.optimizer_offload=True",
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=32",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=32",
        f"{ROLLOUT}.tensor_model_parallel_size=2",
        f"{ROLLOUT}.gpu_memory_utilization=0.6",
        f"{ROLLOUT}.n=5",
        "trainer.n_gpus_per_node=8",
        "trainer.nnodes=2",
        "trainer.save_freq=20",
        "trainer.total_training_steps=300",
        "trainer.logger=['console','wandb']",
    )
    expected = {
        "framework": "verl",
        "method": "grpo",
        "model": "Qwen/Qwen2.5-7B",
        "prompts_per_step": 1024,
        "prompts_per_update": 256,
        "responses_per_prompt": 5,
        "micro_batch_size": 16,
        "logprob_micro_batch_size": 32,
        "max_tokens_per_micro_batch": 0,
        "prompt_tokens": 512,
        "response_tokens": 1024,
        "batch_shape": "packed",
        "kl": "loss",
        "reference": "offloaded",
        "offload": "optimizer-between-phases",
        "sharding": "fsdp1",
        "master_dtype": "fp32",
        "dtype": "bf16",
        "attention": "flash",
        "gradient_checkpointing": "full",
        "rollout": "vllm-colocated",
        "rollout_tensor_parallel": 2,
        "gpu_memory_utilization": 0.6,
        "gpus": 16,
        "gpus_per_node": 8,
        "steps": 300,
        "save_steps": 20,
        "eval_steps": 0,
    }
    assert {name: found.plan[name] for name in expected} == expected
    assert not found.unknown and not found.beyond
    assert [one.name for one in found.no_effect] == ["trainer.logger"]
    assert _named(found.from_defaults)["actor_rollout_ref.actor.strategy"].value == "fsdp"
    assert [one.fields for one in found.open] == [("gpu",)]
    assert "tensor by tensor" in found.messages[0]
    assert Plan(**found.plan).gpus == 16


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("algorithm.adv_estimator=rloo_vectorized",), {"method": "rloo"}),
        (
            ("algorithm.adv_estimator=reinforce_plus_plus_baseline",),
            {"method": "reinforce++", "reinforce_baseline": "group"},
        ),
        (("algorithm.adv_estimator=gae",), {"method": "ppo", "critic": "separate"}),
        (
            ("algorithm.use_kl_in_reward=True", f"{MODEL}.lora_rank=32"),
            {"kl": "reward", "reference": "adapter-disabled", "finetuning": "lora",
             "lora_rank": 32, "lora_targets": "all-linear", "vllm_sleep_level": 1,
             # Adapters are kept like the base, which the YAML loads in fp32.
             "master_dtype": "fp32", "gradient_dtype": "fp32"},
        ),
        (
            (f"{MODEL}.lora_rank=8", f"{MODEL}.target_modules=[q_proj,v_proj]",
             f"{ACTOR}.fsdp_config.model_dtype=bfloat16"),
            {"lora_targets": "q_proj,v_proj", "master_dtype": "none", "gradient_dtype": "bf16"},
        ),
        (
            (f"{ACTOR}.use_dynamic_bsz=True", f"{ACTOR}.ppo_max_token_len_per_gpu=24576"),
            {"max_tokens_per_micro_batch": 24576},
        ),
        (
            (f"{ACTOR}.strategy=fsdp2", f"{ACTOR}.fsdp_config.offload_policy=True"),
            {"sharding": "fsdp2", "offload": "all"},
        ),
        # FSDP1 has no such policy: verl turns CPUOffload off for whoever trains.
        ((f"{ACTOR}.fsdp_config.offload_policy=True",), {"sharding": "fsdp1", "offload": "none"}),
        (
            (f"{ACTOR}.fsdp_config.param_offload=True",
             f"{ACTOR}.fsdp_config.optimizer_offload=True"),
            {"offload": "all-between-phases"},
        ),
        ((f"{ACTOR}.fsdp_config.fsdp_size=16",), {"shard_size": 0}),
        ((f"{ACTOR}.fsdp_config.fsdp_size=4",), {"shard_size": 4}),
        (
            (f"{MODEL}.use_fused_kernels=True",), {"logits": "chunked", "logits_dtype": "fp32"}
        ),
        (
            (f"{MODEL}.use_fused_kernels=True",
             f"{MODEL}.fused_kernel_options.impl_backend=triton"),
            {"logits": "fused"},
        ),
        (
            (f"+{MODEL}.override_config.attn_implementation=sdpa",), {"attention": "sdpa"}
        ),
        (
            (f"++{ROLLOUT}.engine_kwargs.vllm={{kv_cache_dtype:fp8_e4m3,async_scheduling:false}}",),
            {"kv_cache_dtype": "fp8", "async_scheduling": False},
        ),
        (
            ("algorithm.adv_estimator=grpo", f"{ACTOR}.clip_ratio_high=0.3"),
            {"variation": "dapo"},
        ),
        (
            ("algorithm.adv_estimator=grpo", "algorithm.norm_adv_by_std_in_grpo=False",
             f"{ACTOR}.loss_agg_mode=seq-mean-token-sum-norm"),
            {"variation": "dr-grpo"},
        ),
        (
            ("algorithm.adv_estimator=grpo", f"{ACTOR}.policy_loss.loss_mode=gspo"),
            {"variation": "gspo"},
        ),
        (("algorithm.adv_estimator=grpo",), {"variation": "none"}),
        (
            (f"{ACTOR}.optim.optimizer_impl=bitsandbytes.optim",
             f"{ACTOR}.optim.optimizer=AdamW8bit"),
            {"optimizer": "adamw-8bit"},
        ),
        (
            (f"+{ACTOR}.optim.override_optimizer_config.foreach=true",),
            {"optimizer": "adamw-foreach"},
        ),
        (("trainer.test_freq=5",), {"eval_steps": 5}),
        ((), {"reward": "rule"}),
        (
            ("reward_model.enable=True", "reward_model.model.path=Qwen/Qwen3-4B"),
            {"reward": "model", "reward_model": "Qwen/Qwen3-4B"},
        ),
    ],
    ids=str,
)  # fmt: skip
def test_settings_mean_these_fields(words: tuple[str, ...], expected: dict[str, Any]) -> None:
    found = _read(*words)
    assert {name: found.plan.get(name) for name in expected} == expected
    assert not found.unknown


@pytest.mark.parametrize(
    ("words", "name", "why"),
    [
        ((f"{ROLLOUT}.name=sglang",), f"{ROLLOUT}.name", "The engine sglang is not planned."),
        (("algorithm.adv_estimator=opo",), "algorithm.adv_estimator", "estimator opo is no method"),
        ((f"{ACTOR}.ulysses_sequence_parallel_size=2",),
         f"{ACTOR}.ulysses_sequence_parallel_size", "split over so many GPUs"),
        (("model_engine=megatron",), "model_engine", "Another engine than FSDP"),
        (("--config-name=ppo_megatron_trainer.yaml",), "model_engine", "Another engine than FSDP"),
        ((f"{ACTOR}.megatron.tensor_model_parallel_size=4",),
         f"{ACTOR}.megatron.tensor_model_parallel_size", "Megatron's, whose memory"),
        (("algorithm.filter_groups.enable=True",), "algorithm.filter_groups.enable",
         "resampling_factor"),
        ((f"{ROLLOUT}.multi_turn.enable=True",), f"{ROLLOUT}.multi_turn.enable", "several turns"),
        (("actor_rollout_ref.hybrid_engine=False", "trainer.v1.trainer_mode=separate_async"),
         "trainer.nnodes", "one_step_off_policy alone"),
        ((f"{ROLLOUT}.max_model_len=32768",), f"{ROLLOUT}.max_model_len", "1024 tokens"),
        ((f"{ACTOR}.ppo_micro_batch_size=64",), f"{ACTOR}.ppo_micro_batch_size", "per_gpu"),
        ((), f"{ACTOR}.ppo_micro_batch_size_per_gpu", "verl asks for it"),
        (("data.train_batch_size=[1]",), "data.train_batch_size", "not a number that a plan"),
        (("data.train_batch_size=1.5",), "data.train_batch_size", "not a whole number"),
        ((f"{ACTOR}.fsdp_config.model_dtype=int4",), f"{ACTOR}.fsdp_config.model_dtype",
         "The dtype int4 is not planned."),
        ((f"{ACTOR}.strategy=megatron", f"{ACTOR}.fsdp_config.offload_policy=True"),
         f"{ACTOR}.strategy", "Training by megatron is not planned."),
        # The critic's batches are its own: by a budget, unless its engine is told otherwise.
        ((), "critic.fsdp.use_dynamic_bsz", "A plan has one value for this and"),
        (("critic.fsdp.param_offload=True",), "critic.fsdp.param_offload", "which is False"),
        ((f"+{ACTOR}.optim.override_optimizer_config.amsgrad=true",),
         f"{ACTOR}.optim.override_optimizer_config", "{'amsgrad': True} is not planned"),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_field_has_is_named(words: tuple[str, ...], name: str, why: str) -> None:
    found = _read(*words)
    assert why in _named(found.beyond)[name].why


def test_an_engine_that_is_not_planned_gets_no_words_of_another() -> None:
    found = _read("model_engine=megatron")
    assert not {"sharding", "offload", "optimizer", "master_dtype"} & found.plan.keys()
    assert found.plan["prompts_per_step"] == 1024


def test_an_engine_apart() -> None:
    found = _read(
        "actor_rollout_ref.hybrid_engine=False",
        "trainer.n_gpus_per_node=6",
        "rollout.n_gpus_per_node=2",
        "algorithm.rollout_correction.bypass_mode=False",
        program=APART,
    )
    expected = {"rollout": "vllm-separate", "rollout_overlap": "one-step-off", "gpus": 8}
    assert {name: found.plan[name] for name in expected} == expected
    assert found.plan["rollout_gpus"] == 2
    assert [one.fields for one in found.open if one.fields == ("gpus_per_node",)]
    bypassed = _read("actor_rollout_ref.hybrid_engine=False", program=APART)
    assert "log-probs" in _named(bypassed.beyond)["algorithm.rollout_correction.bypass_mode"].why


def test_open_values_are_the_texts_or_asked_for() -> None:
    words = (
        Word("trainer.nnodes=$NODES", opens=(Open("NODES"),)),
        Word(f"{ROLLOUT}.n=6", opens=(Open("N", "6"),)),
        Word(f"{MODEL}.path=$HOME/models/Qwen3-4B", opens=(Open("HOME"),)),
        Word("critic.model.path=$CRITIC", opens=(Open("CRITIC"),)),
        Word("data.train_batch_size=$(nproc)", opens=(Open("$(nproc)"),)),
    )
    found = imported(Launch(PROGRAM, words))
    asked = {one.name for one in found.open if one.asked}
    assert asked >= {"trainer.nnodes", "critic.model.path", "data.train_batch_size", "gpu"}
    # Nobody says how many steps there are but the data set.
    assert "data.train_files" in asked
    assert f"{ROLLOUT}.n" in _named(found.open) and found.plan["responses_per_prompt"] == 6
    assert found.plan["model"] == "Qwen/Qwen3-4B"
    assert "critic_model" not in found.plan
    follows = "critic.model.path=${actor_rollout_ref.model.path}"
    both = _read("algorithm.adv_estimator=gae", f"{MODEL}.path=/m/Qwen3-4B", follows)
    assert (both.plan["model"], both.plan["critic_model"]) == ("Qwen/Qwen3-4B", "")
    unsaid = Word(f"{MODEL}.path=$M", opens=(Open("M"),))
    neither = imported(Launch(PROGRAM, (unsaid, Word(follows))))
    assert {"model", "critic_model"}.isdisjoint(neither.plan)
    assert _named(neither.open)["critic.model.path"].asked
    own = Word(f"{MODEL}.path=me/my-own-model", opens=(Open("MODEL", "me/my-own-model"),))
    unknown = imported(Launch(PROGRAM, (own,)))
    assert "model" not in unknown.plan and _named(unknown.open)[f"{MODEL}.path"].asked


def test_the_surroundings_of_a_command_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWS", "77")
    found = _read(f"{ACTOR}.ppo_mini_batch_size=${{oc.env:ROWS}}")
    assert _named(found.open)[f"{ACTOR}.ppo_mini_batch_size"].asked
    assert found.plan["prompts_per_update"] == 256
    allocator = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert _read(**allocator).plan["expandable_segments"] is True


CONFIG = """\
defaults: [ppo_trainer, _self_]
data: {train_batch_size: 96}
actor_rollout_ref:
  rollout:
    name: vllm
    n: 3
"""


def test_a_configuration_beside_the_script_comes_before_its_words() -> None:
    told = {"conf/mine.yaml": read_yaml(CONFIG, "mine.yaml").givens}
    launch = _launch("--config-path=conf", "--config-name", "mine", "data.train_batch_size=64")
    found = imported(launch, told)
    assert (found.plan["prompts_per_step"], found.plan["responses_per_prompt"]) == (64, 3)
    assert found.plan["rollout"] == "vllm-colocated" and not found.unknown
    place = _named(found.understood)[f"{ROLLOUT}.n"].place
    assert place is not None and CONFIG[place.start : place.end] == "3"
    absent = imported(launch)
    assert "Give the file, too." in " ".join(absent.messages)
    assert [(one.name, one.value) for one in absent.unknown] == [("--config-name", "mine")]
    assert [one.asked for one in absent.open if one.name == "--config-name"] == [True]


def test_old_names_are_read_as_what_they_became() -> None:
    found = _read("critic.model.fsdp_config.fsdp_size=2", "reward_model.use_reward_loop=True")
    assert "critic.fsdp.fsdp_size" in _named(found.beyond)
    assert any("refuses the old name" in sentence for sentence in found.messages)
    assert not found.unknown and "reward_model.use_reward_loop" in _named(found.no_effect)
    assert any("no longer has reward_model.use_reward_loop" in said for said in found.messages)


@pytest.mark.parametrize(
    ("word", "moves"),
    [
        ("data.sampler.class_name=Own", False),
        (f"{ROLLOUT}.multi_turn.interaction_config_path=a.yaml", False),
        ("reward_model.use_reward_loop=True", False),
        ("reward_model.use_reward_loop=False", True),
        ("reward_model.model.fsdp_config.param_offload=True", True),
        ("reward_model.micro_batch_size_per_gpu=4", True),
        ("trainer.use_legacy_worker_impl=disable", False),
        ("trainer.use_legacy_worker_impl=auto", True),
    ],
)
def test_what_verl_no_longer_has_is_named_and_refused_by_hydra(word: str, moves: bool) -> None:
    with pytest.raises(ConfigCompositionException):
        _verls(_launch(word))
    found, name = _read(word), word.partition("=")[0]
    assert name in _named(found.beyond if moves else found.no_effect)
    assert any(name in one and "no longer has" in one for one in found.messages)


def test_another_engines_optimizer_is_not_planned() -> None:
    option = "+actor_rollout_ref.actor.optim.override_optimizer_config.optimizer_cpu_offload=True"
    found = _read(option, "model_engine=megatron")
    assert "actor_rollout_ref.actor.optim.override_optimizer_config" in _named(found.beyond)


def test_sweeps_and_words_that_hydra_refuses_are_named() -> None:
    found = _read(
        f"{ROLLOUT}.n=4,8",
        f"{ACTOR}.ppo_epochs=choice(1,2)",
        f"{ACTOR}.ppo_mini_batch_size=$((64*2))",
        f"~{ACTOR}.clip_ratio",
        "--multirun",
        "nonsense",
    )
    assert [one.name.removesuffix(" (not read)") for one in found.unknown] == [
        f"{ROLLOUT}.n",
        f"{ACTOR}.ppo_epochs",
        f"{ACTOR}.ppo_mini_batch_size",
        f"~{ACTOR}.clip_ratio",
        "--multirun",
        "nonsense",
    ]
    assert found.plan["responses_per_prompt"] == 1 and found.plan["prompts_per_update"] == 256
    assert sum("Give one value" in sentence for sentence in found.messages) == 2
    assert sum("hydra does not read" in sentence for sentence in found.messages) == 2


def test_values_are_those_of_hydras_parser() -> None:
    words = ["a.b=1e-6", "+a.c='x y'", "++d=[1,{e:null}]", "f=true", "g=", "~h", "i@j=k"]
    overrides = OverridesParser.create().parse_overrides(words)
    assert [one.value for one in parsed(map(Word, words)).givens] == [
        one.value() if one.value_type else None for one in overrides
    ]


SCRIPT = """\
NODES=2  # two of them
python3 -m verl.trainer.main_ppo \\
    trainer.nnodes=$NODES actor_rollout_ref.rollout.n='16' \\
    data.train_batch_size=${BATCH:-512} \\
    actor_rollout_ref.model.path=$MODELS/Qwen3-4B
"""


def test_a_scripts_values_have_their_own_places() -> None:
    [launch] = read_shell(SCRIPT, "run.sh", {})
    found = imported(launch)
    entries = {one.name: one for one in (*found.understood, *found.open)}

    def text_of(name: str) -> str:
        place = entries[name].place
        assert place is not None
        return SCRIPT[place.start : place.end]

    assert text_of("trainer.nnodes") == "2" and text_of(f"{ROLLOUT}.n") == "16"
    assert text_of("data.train_batch_size") == "512"
    assert [one.name for one in found.open if one.name == "data.train_batch_size"]
    expected = {"gpus": 16, "responses_per_prompt": 16, "prompts_per_step": 512}
    assert {name: found.plan[name] for name in expected} == expected
    assert found.plan["model"] == "Qwen/Qwen3-4B"


@pytest.mark.parametrize(
    ("program", "mine"),
    [
        (PROGRAM, True),
        ("/opt/src/verl/trainer/main_ppo.py", True),
        ("verl.trainer.sft_trainer", True),
        ("trl grpo", False),
        ("train.py", False),
        ("myverl.trainer.main_ppo", False),
    ],
)
def test_commands_of_verl_are_recognised(program: str, mine: bool) -> None:
    assert takes(Launch(program, ())) is mine


def test_a_program_that_is_not_planned_gets_no_verdict() -> None:
    found = imported(_launch("data.train_batch_size=8", program="verl.trainer.sft_trainer"))
    assert not found.plan and _named(found.unknown)["data.train_batch_size"].value == 8
    assert "verl.trainer.sft_trainer is not planned" in found.messages[0]


def test_settings_of_megatrons_say_that_it_trains() -> None:
    """hydra takes none of them in a configuration of FSDP's."""
    words = ("--config-name=theirs", f"{ACTOR}.megatron.tensor_model_parallel_size=2")
    found = _read(*words, f"{ACTOR}.use_kl_loss=true")
    assert _named(found.beyond)["model_engine"].value == "megatron"
    assert found.plan["kl"] == "loss"
    assert not found.plan.keys() & {"sharding", "offload", "reference", "tensor_parallel"}


def test_a_program_that_is_built_on_verl_is_recognised_by_its_settings() -> None:
    words = (f"{ROLLOUT}.n=4", f"{ACTOR}.optim.lr=1e-6", f"+{MODEL}.path=Qwen/Qwen3-4B")
    launch = _launch(*words, program="examples/split.py")
    assert takes(launch) and not takes(_launch(*words[:2], program="examples/split.py"))
    found = imported(launch)
    assert not found.plan and _named(found.unknown)[f"{ROLLOUT}.n"].value == 4
    assert found.messages[0].startswith("examples.split is not planned")


NASTY = (
    "[" * 30_000,
    "a=" + "[" * 5_000 + "]" * 5_000,
    "a=" + "{" * 39 + "}" * 39,
    "a=" + "x" * (LONGEST + 1),
    f"{ROLLOUT}.n=1e400",
    f"{ROLLOUT}.n=nan",
    f"{ROLLOUT}.temperature=" + "9" * 400,
    f"{ROLLOUT}.n={{a:1}}",
    f"{ROLLOUT}.n=${{{ROLLOUT}.n}}",
    "data.train_batch_size=" + "9" * 5_000,
    f"{MODEL}.path=" + "${data.train_files}" * 400,
    "data.train_files=" + "${data.val_files}" * 400,
    "data.val_files=" + "${data.train_files}" * 400,
    "trainer.nnodes=true",
    "algorithm.adv_estimator=[grpo]",
    f"{MODEL}.lora_rank=99999999999999999999",
    "critic.enable={}",
    "$(touch /tmp/x)=1",
    "\x00=\x00",
    "",
)


def test_hostile_words_are_bounded() -> None:
    for seed in range(20):
        dice = random.Random(seed)
        words = dice.choices(NASTY, k=12)
        assert imported(_launch(*words)).plan["framework"] == "verl"
    many = imported(_launch(*(f"a.b{number}=1" for number in range(2 * MOST_WORDS))))
    assert len(many.unknown) == MOST_WORDS and "were not read" in many.messages[0]


def test_an_engine_that_frees_nothing_is_planned_awake() -> None:
    awake = f"{ROLLOUT}.free_cache_engine=False"
    found = _read(awake)
    assert found.plan["vllm_sleep_level"] == 0
    assert f"{ROLLOUT}.free_cache_engine" in _named(found.understood)
    assert not [one for one in found.beyond if "sleep" in one.name or "free" in one.name]
    mode = f"+{ROLLOUT}.enable_sleep_mode=False"
    both = _read(awake, mode)
    assert both.plan["vllm_sleep_level"] == 0
    assert f"{ROLLOUT}.enable_sleep_mode" in _named(both.understood)
    alone = _read(mode)
    assert "free_cache_engine" in _named(alone.beyond)[f"{ROLLOUT}.enable_sleep_mode"].why
    plan = fitted(Plan(framework="verl", vllm_sleep_level=0), "verl")
    assert plan.vllm_sleep_level == 0 and not tried(plan)
    launch = launched(plan)
    launch = replace(launch, arguments=tuple(one for one in launch.arguments if one.known))
    assert _at(_verls(launch), f"{ROLLOUT}.free_cache_engine") is False
