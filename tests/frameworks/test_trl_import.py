"""TRL's launches read into a plan: what people write, and what an export wrote."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from frameworks.drawn_plans import drawn
from frameworks.exported import complaints, differing, givens, read_again
from planner.frameworks.trl.importer import imported, method_of, takes
from planner.frameworks.trl.settings import all_settings
from planner.importer.given import Given, Launch, Open, Place, Word
from planner.importer.imported import imported as read_texts
from planner.importer.reading import Reading
from planner.importer.shell import read_shell
from planner.importer.yaml_text import read_yaml
from planner.launch.export import export, fitted
from planner.plan import FIELDS, Plan

LAUNCHERS = ("accelerate launch", "torchrun", "deepspeed")


def launch_of(line: str, **environment: str) -> Launch:
    """A command as one line: a launcher with its options, ``--``, the program, its words."""
    words = tuple(Word(text) for text in shlex.split(line))
    texts = [word.text for word in words]
    launchers: tuple[tuple[str, tuple[Word, ...]], ...] = ()
    if "--" in texts:
        at = texts.index("--")
        name = next(name for name in LAUNCHERS if line.startswith(name))
        launchers = ((name, words[len(name.split()) : at]),)
        words = words[at + 1 :]
    size = 2 if words[0].text == "trl" else 1
    program = " ".join(word.text for word in words[:size])
    told = {name: Word(value) for name, value in environment.items()}
    return Launch(program, words[size:], launchers, told)


def read(line: str, files: Mapping[str, Any] | None = None, **environment: str) -> Reading:
    made = {name: givens(values) for name, values in (files or {}).items()}
    return imported(launch_of(line, **environment), made)


def fields(reading: Reading, *names: str) -> tuple[Any, ...]:
    return tuple(reading.plan.get(name) for name in names)


def test_an_export_is_read_as_the_plan_that_it_is_of(tmp_path: Path) -> None:
    """100 plans by lot; ``tests/frameworks/exported.py`` does as many as it is told."""
    seen: dict[str, set[Any]] = {}
    for number, plan in enumerate(drawn("trl", 100, seed=3)):
        reading = read_again(tmp_path / str(number), plan)
        assert differing(plan, reading) == {}, plan
        assert complaints(plan, reading) == [], plan
        for name, value in reading.plan.items():
            seen.setdefault(name, set()).add(value)
    assert {*seen} <= {*FIELDS}
    moved = {name for name, values in seen.items() if len(values) > 1}
    assert len(moved) > 40
    assert {"sharding", "offload", "finetuning", "rollout", "reference", "optimizer"} <= moved


def test_what_a_person_writes_for_grpo() -> None:
    reading = read(
        "accelerate launch --config_file zero.yaml --num_processes=4 -- trl.scripts.grpo "
        "--model_name_or_path Qwen/Qwen2.5-7B --dtype bfloat16 --beta=0.04 "
        "--per-device-train-batch-size 4 --gradient_accumulation_steps 8 --num_generations 16 "
        "--max_completion_length 1024 --use_vllm --vllm_gpu_memory_utilization 0.4 "
        "--vllm_max_model_length 1536 --use_peft --lora_r 32 --lora_target_modules q_proj v_proj "
        "--max_steps 100 --save_strategy no --dataset_name owner/set --output_dir out",
        {"zero.yaml": {"distributed_type": "DEEPSPEED", "num_processes": 8,
                       "deepspeed_config": {"zero_stage": 3}}},
    )
    wanted = {
        "model": "Qwen/Qwen2.5-7B",
        "gpus": 4,  # a flag goes before the file
        "sharding": "zero3",
        "micro_batch_size": 4,
        # 4 rows x 8 micro-batches x 4 processes are 128, of 16 responses each
        "prompts_per_update": 8,
        "prompts_per_step": 8,
        "responses_per_prompt": 16,
        "prompt_tokens": 512,
        "response_tokens": 1024,
        "finetuning": "lora",
        "lora_rank": 32,
        "lora_targets": "q_proj,v_proj",
        "lora_dropout": 0.05,
        "kl": "loss",
        "reference": "adapter-disabled",
        "dtype": "bf16",
        "master_dtype": "fp32",
        "rollout": "vllm-colocated",
        "gpu_memory_utilization": 0.4,
        # 4 rows x 8 micro-batches of a rollout, for one engine a GPU
        "max_num_seqs": 32,
        "vllm_sleep_level": 0,
        "empty_cache": "never",
        "gradient_checkpointing": "full",
        "steps": 100,
        "save_steps": 0,
    }
    assert {name: reading.plan[name] for name in wanted} == wanted
    assert [entry.name for entry in reading.unknown] == []
    assert {"dataset_name", "output_dir"} <= {entry.name for entry in reading.no_effect}
    assert reading.messages == ["accelerate.num_processes is given more than once: the last one "
                                "counts."]


def test_a_configuration_goes_before_defaults_and_flags_before_it() -> None:
    recipe = {
        "model_name_or_path": "Qwen/Qwen3-4B",
        "max_length": 4096,
        "packing": True,
        "attn_implementation": "flash_attention_2",
        "gradient_accumulation_steps": 2,
        "bf16": False,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "env": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        "colour": "red",
    }
    reading = read(
        "torchrun --nproc_per_node 2 --nnodes=2 -- trl.scripts.sft --config sft.yaml "
        "--gradient_accumulation_steps 4 --no_bf16",
        {"sft.yaml": recipe},
    )
    assert fields(reading, "gpus", "gpus_per_node", "sharding") == (4, 2, "ddp")
    # 8 rows x 4 micro-batches x 4 processes
    assert fields(reading, "prompts_per_update", "prompts_per_step") == (128, 128)
    assert fields(reading, "prompt_tokens", "response_tokens") == (2048, 2048)
    assert fields(reading, "batch_shape", "attention") == ("packed", "flash")
    # TRL loads in fp32 unless told otherwise, and nothing computes in half precision here.
    assert fields(reading, "dtype", "master_dtype") == ("fp32", "none")
    assert "expandable_segments" not in reading.plan
    assert {entry.name for entry in reading.unknown} == {
        "env.PYTORCH_CUDA_ALLOC_CONF", "colour"
    }
    assert any("env block" in message for message in reading.messages)
    (beyond,) = (one for one in reading.beyond if one.name == "gradient_checkpointing_kwargs")
    assert beyond.value == {"use_reentrant": False} and "Reentrant" in beyond.why


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("trl sft --accelerate_config zero2", (8, "zero2", "none")),
        ("trl sft --accelerate_config fsdp1 --num_processes 2", (2, "fsdp1", "none")),
        ("trl sft --accelerate_config=fsdp2", (8, "fsdp2", "none")),
        ("trl sft --num_processes 4 --multi_gpu", (4, "ddp", None)),
        ("accelerate launch --num_processes 1 -- trl.scripts.sft", (1, "none", "none")),
        ("accelerate launch -- trl.scripts.sft", (None, "ddp", "none")),
        ("trl.scripts.sft", (1, "none", "none")),
        ("torchrun -- examples/scripts/sft.py", (1, "none", "none")),
        (
            "accelerate launch --use_fsdp --fsdp_version 2 --fsdp_offload_params true "
            "--num_processes 8 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP -- trl.scripts.sft",
            (8, "fsdp2", "all"),
        ),
        (
            "accelerate launch --use_deepspeed --num_processes 8 --zero_stage 3 "
            "--offload_optimizer_device cpu -- trl.scripts.sft",
            (8, "zero3", "optimizer"),
        ),
        # DeepSpeedPlugin's own stage is 2.
        ("accelerate launch --use_deepspeed --num_processes 8 -- trl.scripts.sft",
         (8, "zero2", "none")),
        ("torchrun --nproc_per_node=8 -- trl.scripts.sft --fsdp 'full_shard auto_wrap'",
         (8, "fsdp2", "none")),
        ("torchrun --nproc_per_node=8 -- trl.scripts.sft --fsdp 'full_shard offload'",
         (8, "fsdp2", "all")),
    ],
)
def test_how_processes_share_the_state(line: str, expected: tuple[Any, ...]) -> None:
    reading = read(line)
    offload = expected[2] or "none"
    assert fields(reading, "gpus", "sharding", "offload") == (*expected[:2], offload)
    asks = {field for entry in reading.open for field in entry.fields}
    assert ("gpus" in asks) == (expected[0] is None)


FSDP = "accelerate launch --use_fsdp --fsdp_version 2 --num_processes 4 -- trl.scripts.sft "
DDP = "torchrun --nproc_per_node 4 -- trl.scripts.sft "


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # TRL loads in fp32 and computes in bf16 for want of a word.
        (DDP, ("bf16", "fp32", "compute")),
        (DDP + "--dtype bfloat16", ("bf16", "none", "compute")),
        (DDP + "--bf16 false", ("fp32", "none", "compute")),
        (DDP + "--fp16", ("fp16", "fp32", "compute")),
        (FSDP + "--dtype bfloat16", ("bf16", "fp32", "compute")),
        (FSDP + "--dtype bfloat16 --bf16 false", ("bf16", "none", "compute")),
        (DDP + "--use_peft", ("bf16", "fp32", "fp32")),
        (DDP + "--use_peft --torch_dtype torch.bfloat16", ("bf16", "fp32", "compute")),
        (DDP + "--use_peft --load_in_4bit --dtype bfloat16", ("bf16", "none", "compute")),
    ],
)
def test_dtypes_come_of_several_settings(line: str, expected: tuple[str, ...]) -> None:
    assert fields(read(line), "dtype", "master_dtype", "base_dtype") == expected


def test_deepspeeds_file_and_what_transformers_puts_for_auto() -> None:
    zero = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": "auto",
        "bf16": {"enabled": "auto"},
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "cpu"},
            "offload_param": {"device": "cpu", "pin_memory": True},
            "reduce_bucket_size": "auto",
            "sub_group_size": 1e9,
            "mystery": 1,
        },
    }
    line = (
        "deepspeed --num_gpus 4 -- trl/scripts/grpo.py --deepspeed ds.json --dtype bfloat16 "
        "--beta 0.1 --per_device_train_batch_size {} --num_generations 4"
    )
    reading = read(line.format(2), {"ds.json": zero})
    assert fields(reading, "gpus", "sharding", "offload") == (4, "zero3", "all")
    assert fields(reading, "dtype", "master_dtype", "gradient_dtype") == ("bf16", "fp32", "bf16")
    assert reading.plan["reference"] == "offloaded"
    assert [entry.name for entry in reading.unknown] == ["deepspeed.zero_optimization.mystery"]
    beyond = {entry.name.rpartition(".")[2]: entry.why for entry in reading.beyond}
    assert {"reduce_bucket_size"} <= beyond.keys() and "sub_group_size" not in beyond
    # Another micro-batch than the trainer's: transformers stops.
    reading = read(line.format(8), {"ds.json": zero})
    (stopped,) = (one for one in reading.beyond if one.name.endswith("size_per_gpu"))
    assert "transformers stops" in stopped.why
    off = {**zero, "bf16": {"enabled": False}, "train_micro_batch_size_per_gpu": 2}
    reading = read(line.format(2) + " --dtype float32", {"ds.json": off})
    assert fields(reading, "dtype", "master_dtype") == ("fp32", "none")


def test_a_file_that_is_not_beside_is_asked_for() -> None:
    reading = read("trl grpo --config recipe.yaml --accelerate_config mine.yaml --deepspeed d.json")
    asked = {entry.name for entry in reading.open if entry.asked}
    assert {"config", "accelerate_config", "deepspeed"} <= asked
    assert reading.unknown == []


def test_what_is_trls_and_what_of_it_is_planned() -> None:
    assert takes(launch_of("trl kto --beta 0.1")) and takes(launch_of("trl.scripts.grpo"))
    assert not takes(launch_of("torchrun -- train.py --beta 0.1"))
    assert not takes(launch_of("verl.trainer.main_ppo"))
    kto = imported(launch_of("trl kto --beta 0.1"))
    assert kto.plan == {} and [entry.name for entry in kto.unknown] == ["beta"]
    assert kto.messages == ["trl kto is not planned: its settings are listed as they stand."]
    words = imported(launch_of("trl.scripts.sft first second --packing true"))
    assert [entry.value for entry in words.unknown] == ["first", "second"]
    # A script of a trainer's name, told what that trainer takes, is taken for one.
    told = "torchrun -- src/grpo.py --num_generations 4 --max_completion_length 9"
    assert not takes(launch_of(told)) and takes(launch_of(f"{told} --beta 0"))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-7B"),
        ("/data/models/Qwen2.5-7B", "Qwen/Qwen2.5-7B"),
        ("./checkpoints/mine", None),
    ],
)
def test_a_model_is_the_catalogs_or_asked_for(name: str, known: str | None) -> None:
    reading = read(f"trl grpo --model_name_or_path {name}")
    assert reading.plan.get("model") == known
    asks = {entry.name: entry.value for entry in reading.open if "model" in entry.fields}
    assert bool(asks) == (known is None)


def test_a_python_scripts_arguments_are_settings() -> None:
    script = {
        "GRPOConfig.per_device_train_batch_size": 8,
        "GRPOConfig.num_generations": 8,
        "GRPOConfig.model_init_kwargs": {"torch_dtype": "bfloat16"},
        "GRPOConfig.max_prompt_length": 256,
        "LoraConfig.r": 64,
        "LoraConfig.target_modules": ["q_proj", "k_proj"],
        "LoraConfig.task_type": "CAUSAL_LM",
        "LoraConfig.bias": "none",
        "GRPOTrainer.0": "Qwen/Qwen2.5-0.5B",
        "trl.SFTConfig.max_length": 99,
        "AutoTokenizer.from_pretrained.0": "somebody/else",
    }
    line = "accelerate launch --num_processes 2 -- train.py"
    reading = read(line, {"train.py": script})
    assert reading.plan["method"] == "grpo"
    assert fields(reading, "model", "prompt_tokens") == ("Qwen/Qwen2.5-0.5B", 256)
    assert fields(reading, "finetuning", "lora_rank", "lora_targets") == (
        "lora", 64, "q_proj,k_proj"
    )
    assert fields(reading, "dtype", "base_dtype") == ("bf16", "compute")
    assert {one.name for one in reading.unknown} == {"LoraConfig.bias", "trl.SFTConfig.max_length"}
    assert method_of(launch_of(line), {}) == ""
    loaded = {
        "AutoModelForCausalLM.from_pretrained.0": "Qwen/Qwen3-4B",
        "AutoModelForCausalLM.from_pretrained.torch_dtype": "torch.bfloat16",
        "trl.SFTConfig.max_length": 100,
    }
    reading = read(line, {"train.py": loaded})
    assert fields(reading, "method", "model", "dtype", "master_dtype") == (
        "sft", "Qwen/Qwen3-4B", "bf16", "none"
    )
    assert reading.messages == []
    del loaded["AutoModelForCausalLM.from_pretrained.torch_dtype"]
    reading = read(line, {"train.py": loaded})
    assert "dtype" not in reading.plan
    assert any("checkpoint's own" in entry.why for entry in reading.beyond)


def test_what_a_setting_rests_on_is_asked_for_or_listed() -> None:
    words = (
        Word("--num_generations"), Word("", None, (Open("GROUP"),)),
        Word("--beta"), Word("0.02", Place("run.sh", 3, 20, 24), (Open("BETA", "0.02"),)),
    )
    reading = imported(Launch("trl grpo", words), {})
    asked = {entry.name: entry.asked for entry in reading.open if entry.fields}
    assert asked["num_generations"] and not asked["beta"]
    # TRL's own default until somebody says it.
    assert reading.plan["responses_per_prompt"] == 8 and reading.plan["kl"] == "loss"
    (beta,) = (entry for entry in reading.understood if entry.name == "beta")
    assert beta.place == Place("run.sh", 3, 20, 24)


def test_the_place_of_a_value_is_its_own(tmp_path: Path) -> None:
    """What a diff replaces: the characters behind the equals sign, all words of a list."""
    text = "--beta=0.5 --reward_funcs a.b c.d"
    words, at = [], 0
    for part in text.split():
        begin = text.index(part, at)
        at = begin + len(part)
        words.append(Word(part, Place("run.sh", 1, begin, at)))
    reading = imported(Launch("trl grpo", tuple(words)), {})
    found = {entry.name: entry.place for entry in reading.understood if entry.place}
    spans = {name: text[place.start : place.end] for name, place in found.items() if place}
    assert spans["beta"] == "0.5" and spans["reward_funcs"] == "a.b c.d"


def test_a_persons_script_from_its_text_to_the_plan() -> None:
    text = """BETA=0.04
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
accelerate launch --num_processes 4 -m trl.scripts.grpo \\
    --beta=$BETA --num_generations ${GROUP:-16} --config recipe.yaml
"""
    recipe = "model_name_or_path: Qwen/Qwen3-4B\nbeta: 0.1\nmax_completion_length: 700\n"
    (launch,) = read_shell(text, "run.sh", {})
    assert takes(launch)
    reading = imported(launch, {"recipe.yaml": read_yaml(recipe, "recipe.yaml").givens})
    assert fields(reading, "gpus", "sharding", "kl", "expandable_segments") == (
        4, "ddp", "loss", True
    )
    assert fields(reading, "responses_per_prompt", "response_tokens") == (16, 700)
    places = {entry.name: entry.place for entry in reading.understood if entry.place}
    assert text[places["beta"].start : places["beta"].end] == "0.04"
    length = places["max_completion_length"]
    assert recipe[length.start : length.end] == "700" and length.file == "recipe.yaml"
    assert [entry.name for entry in reading.open if not entry.asked] == ["num_generations"]


@pytest.mark.parametrize(
    ("flags", "name", "why"),
    [
        ("--optim adafactor", "optim", "adafactor"),
        ("--attn_implementation flex_attention", "attn_implementation", "flex_attention"),
        ("--torch_compile true", "torch_compile", "whole"),
        ("--torch_empty_cache_steps 7", "torch_empty_cache_steps", "7"),
        ("--save_strategy epoch", "save_steps", "epoch"),
        ("--save_steps 0.1", "save_steps", "share"),
        ("--num_generations 3", "steps_per_generation", "3 responses"),
        ("--num_generations many", "num_generations", "many"),
        ("--num_generations 0", "num_generations", "from 1"),
        ("--use_dora", "use_dora", "magnitude"),
        ("--num_iterations 2", "num_iterations", "again"),
        ("--load_in_4bit", "use_peft", "adapters"),
        ("--use_peft --lora_target_modules q_proj,v_proj", "lora_target_modules", "comma"),
        ("--use_peft --dtype bfloat16 --bf16 false", "dtype", "autocast"),
        ("--dtype bfloat16 --fp16 true", "dtype", "bf16 under fp16"),
    ],
)
def test_what_no_field_has_is_named(flags: str, name: str, why: str) -> None:
    model = "--model_name_or_path Qwen/Qwen2.5-0.5B"
    reading = read(f"torchrun --nproc_per_node 4 -- trl.scripts.grpo {model} {flags}")
    found = {entry.name: entry.why for entry in reading.beyond}
    assert why in found[name], found


def test_a_reference_that_is_loaded_in_fp32_is_named() -> None:
    line = (
        "accelerate launch --use_fsdp --num_processes 8 -- trl.scripts.grpo "
        "--model_name_or_path Qwen/Qwen2.5-0.5B --beta {} --dtype {}"
    )
    for beta, dtype, named in ((0.1, "float32", True), (0.1, "bfloat16", False), (0, "float32", 0)):
        reading = read(line.format(beta, dtype))
        assert fields(reading, "sharding", "dtype", "master_dtype") == ("fsdp1", "bf16", "fp32")
        assert any("reference" in entry.why for entry in reading.beyond) == bool(named)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--loss_type dr_grpo --scale_rewards none", "dr-grpo"),
        ("--loss_type dapo --epsilon 0.2 --epsilon_high 0.28 --mask_truncated_completions", "dapo"),
        ("--loss_type bnpo", "none"),
        ("", "none"),
    ],
)
def test_variations_are_told_by_all_of_their_settings(flags: str, expected: str) -> None:
    assert read(f"trl grpo {flags}").plan["variation"] == expected


def test_a_server_has_gpus_of_its_own() -> None:
    trainer = launch_of(
        "accelerate launch --num_processes 6 -- trl.scripts.grpo --use_vllm --vllm_mode server "
        "--num_generations 6 --max_completion_length 500",
    )
    alone = imported(trainer, {})
    asks = {field for entry in alone.open for field in entry.fields}
    assert {"rollout_gpus", "prompt_tokens", "gpus"} <= asks
    server = (
        "trl vllm-serve --model x/y --tensor_parallel_size 2 --gpu-memory-utilization 0.9 "
        "--max_model_len 2000 --enforce-eager"
    )
    reading = imported(trainer, {}, [launch_of(server)])
    assert fields(reading, "gpus", "rollout_gpus", "rollout_tensor_parallel") == (8, 2, 2)
    assert fields(reading, "prompt_tokens", "enforce_eager") == (1500, True)
    assert reading.plan["rollout"] == "vllm-separate"


JUNK = ("", "-1", "0", "1e400", "nan", "[", "None", "\x00", "9" * 400, "true", [1, [2]], {"a": {}},
        None, 1e308, -5, [], {"": None}, "$(reboot)", "../../etc/passwd", object())


def test_any_value_of_any_setting_is_read_or_named() -> None:
    """What a text has for a value is never an error of ours, whatever its kind."""
    number = 0
    launch = Launch("trl grpo", (Word("--config"), Word("c.yaml")))
    beside = ("vllm.", "environment.")  # of a server and of the shell, in no configuration
    for row in (one for one in all_settings("grpo") if not one.name.startswith(beside)):
        for value in JUNK[number % 7 :: 7]:
            number += 1
            config = (
                Given("use_vllm", True), Given("use_peft", True), Given(row.name, value),
                Given("model_name_or_path", "Qwen/Qwen2.5-0.5B"),
            )
            reading = imported(launch, {"c.yaml": config})
            lists = (reading.understood, reading.beyond, reading.open, reading.unknown,
                     reading.no_effect, reading.from_defaults)
            found = {entry.name for entries in lists for entry in entries}
            # A mapping is settings of its own, below that name or in place of it.
            assert any(f"{name}.".startswith(f"{row.name}.") for name in found), row.name
    assert number > 500


def test_our_own_program_around_trls_trainer_is_read_as_the_method_that_it_is_of() -> None:
    plan = fitted(Plan(method="intuitor", framework="trl", gpus=4, steps=7), "trl")
    texts = {one.name: one.text for one in export(plan, "trl").files}
    found = read_texts(texts, {"gpu": plan.gpu})
    assert found.plan is not None and not found.reading.unknown and not found.left_out
    same = ("method", "model", "gpus", "steps", "self_certainty", "kl", "sharding", "logits")
    assert {name: getattr(found.plan, name) for name in same} == {
        name: getattr(plan, name) for name in same
    }
    program = texts["intuitor.py"].replace('"method": "intuitor"', '"other": 1')
    without = {**texts, "intuitor.py": program}
    again = read_texts(without, {"gpu": plan.gpu})
    assert again.plan is not None and again.plan.method == "grpo" and again.left_out
