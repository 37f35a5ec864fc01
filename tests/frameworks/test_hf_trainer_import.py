"""Programs around transformers' Trainer read into a plan: what people write, and what was exported.

Scripts are of our own writing; the parser that they are held to is transformers' own.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from peft import LoraConfig
from transformers import (
    HfArgumentParser,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainingArguments,
)

from frameworks.drawn_plans import drawn
from frameworks.exported import complaints, differing, read_again
from planner.frameworks.hf_trainer.importer import BY_TRAINER
from planner.frameworks.hf_trainer.reading import all_settings, no_effect
from planner.frameworks.hf_trainer.settings import ADAPTERS, MODEL
from planner.importer.imported import Imported, imported
from planner.importer.reading import pattern
from planner.importer.rewriting import patch, rewritten
from planner.launch.export import export
from planner.plan import FIELDS, Plan, try_plan

SAID = {"gpu": "h100-80gb"}


def test_an_export_is_read_as_the_plan_that_it_is_of(tmp_path: Path) -> None:
    """100 plans by lot; ``tests/frameworks/exported.py`` does as many as it is told."""
    seen: dict[str, set[Any]] = {}
    for number, plan in enumerate(drawn("hf_trainer", 100, seed=3)):
        reading = read_again(tmp_path / str(number), plan)
        assert differing(plan, reading) == {}, plan
        assert complaints(plan, reading) == [], plan
        for name, value in reading.plan.items():
            seen.setdefault(name, set()).add(value)
    assert {*seen} <= {*FIELDS}
    moved = {name for name, values in seen.items() if len(values) > 1}
    assert len(moved) > 25
    assert {"sharding", "offload", "finetuning", "lora_targets", "optimizer", "liger"} <= moved


def plan_in(text: str) -> dict[str, Any]:
    """What the program's ``PLAN`` holds."""
    named = {
        ast.unparse(node.target): node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.AnnAssign) and node.value is not None
    }
    values: dict[str, Any] = ast.literal_eval(named["PLAN"])
    return values


SETTLED = {"bf16", "fp16", "report_to", "debug", "dataloader_pin_memory"}
"""What ``use_cpu`` or the class itself makes into something else, held below by hand."""


def test_their_own_classes_make_of_an_export_what_the_rows_make(tmp_path: Path) -> None:
    names = {field.name for field in fields(TrainingArguments)}
    compared: set[str] = set()
    for number, plan in enumerate(drawn("hf_trainer", 30, seed=11)):
        told = plan_in(export(plan, "hf_trainer").text("train.py"))
        given = {name: value for name, value in told.items() if name in names}
        theirs = TrainingArguments(**given, output_dir=str(tmp_path), use_cpu=True)
        reading = read_again(tmp_path / str(number), plan)
        entries = (*reading.understood, *reading.from_defaults)
        ours = {row.name: row.default for row in all_settings()}
        ours |= {entry.name: entry.value for entry in entries}
        for name in names & ours.keys() - SETTLED:
            value = getattr(theirs, name)
            if ours[name] is None and name not in told:
                continue  # what the class makes of nothing moves nothing here
            mirrored = ("gradient_checkpointing", "activation_checkpointing")
            if name == "use_cpu" or name.startswith(mirrored):
                continue  # the older name mirrors the newer one, below
            assert str(getattr(value, "value", value)) == str(ours[name]), (name, plan)
            compared.add(name)
        assert theirs.bf16 == ours["bf16"] and theirs.fp16 == ours["fp16"]
        assert bool(theirs.activation_checkpointing) == bool(ours["activation_checkpointing"])
        kept = theirs.activation_checkpointing_kwargs or {}
        assert bool(kept.get("offload")) == bool(
            (ours["activation_checkpointing_kwargs"] or {}).get("offload")
        )
        if ADAPTERS in told:
            lora = LoraConfig(**told[ADAPTERS])
            assert (lora.r, lora.lora_dropout) == (ours["lora.r"], ours["lora.lora_dropout"])
            targets = told[ADAPTERS]["target_modules"]
            assert targets == ours["lora.target_modules"]
    assert {"per_device_train_batch_size", "max_steps", "optim", "use_liger_kernel"} <= compared


def test_every_setting_of_theirs_is_a_row_or_moves_nothing() -> None:
    nothing = pattern(no_effect())
    rows = {row.name: row for row in all_settings()}
    assert len(rows) == len(all_settings())
    classes: dict[str, Any] = {"": Seq2SeqTrainingArguments, f"{ADAPTERS}.": LoraConfig}
    for prefix, kind in classes.items():
        for field in fields(kind):
            name = prefix + field.name
            assert name in rows or nothing.fullmatch(name), name
            default = field.default
            if name in rows and default is not MISSING:
                assert rows[name].default == getattr(default, "value", default), name
    handed = inspect.signature(Trainer.__init__).parameters
    assert {name.removeprefix("trainer.") for name in BY_TRAINER} <= handed.keys()
    known = {field.name for field in fields(Seq2SeqTrainingArguments)}
    for row in rows.values():
        if "training_args" in row.source:
            assert row.name in known, row.name
        assert row.fields or row.otherwise or row.write or row.moves == "seconds", row.name
        assert set(row.fields) <= {*FIELDS}, row.name


SCRIPT = """\
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

NAME = "Qwen/Qwen2.5-1.5B"
tokenizer = AutoTokenizer.from_pretrained(NAME)
model = AutoModelForCausalLM.from_pretrained(
    NAME, torch_dtype=torch.bfloat16, attn_implementation="flash_attention_2", use_cache=False
)
config = LoraConfig(r=32, lora_alpha=64, target_modules=["q_proj", "v_proj"], bias="none")
model = get_peft_model(model, config)


def cut(rows):
    return tokenizer(rows["text"], truncation=True, max_length=1024)


common = {"learning_rate": 2e-4, "bf16": True, "gradient_checkpointing": True}
args = TrainingArguments(
    "out",
    per_device_train_batch_size=4,  # what fits
    gradient_accumulation_steps=8,
    max_steps=500,
    optim="adamw_torch",
    **common,
)
Trainer(model=model, args=args, train_dataset=rows.map(cut)).train()
"""
WANTED = {
    "framework": "hf_trainer",
    "method": "sft",
    "model": "Qwen/Qwen2.5-1.5B",
    "gpus": 1,
    "sharding": "none",
    "finetuning": "lora",
    "lora_rank": 32,
    "lora_targets": "q_proj,v_proj",
    # peft's own, where TRL's is 0.05
    "lora_dropout": 0.0,
    "dtype": "bf16",
    # peft widens adapters of half-precision weights
    "master_dtype": "fp32",
    "base_dtype": "compute",
    "attention": "flash",
    "gradient_checkpointing": "full",
    "micro_batch_size": 4,
    # 4 rows x 8 micro-batches of one process
    "prompts_per_update": 32,
    "prompts_per_step": 32,
    "prompt_tokens": 512,
    "response_tokens": 512,
    "batch_shape": "padded",
    "optimizer": "adamw-foreach",
    "steps": 500,
    # TrainingArguments saves every 500 steps
    "save_steps": 500,
    "liger": False,
}


def read(texts: Mapping[str, str], **answers: Any) -> Imported:
    return imported(texts, {**SAID, **answers})


def values(found: Imported, *names: str) -> tuple[Any, ...]:
    return tuple(found.reading.plan.get(name) for name in names)


def test_a_python_script() -> None:
    found = read({"train.py": SCRIPT})
    assert {name: found.reading.plan[name] for name in WANTED} == WANTED
    assert found.plan is not None and not found.problems and not found.left_out
    assert found.reading.unknown == [] and found.reading.messages == []


def changed(found: Imported, **changes: Any) -> Plan:
    assert found.plan is not None
    after, problems = try_plan({**found.plan.model_dump(), **changes})
    assert after is not None, problems
    return after


def test_a_script_comes_back_with_other_lines() -> None:
    found = read({"train.py": SCRIPT})
    changes = {"micro_batch_size": 2, "logprob_micro_batch_size": 2, "lora_rank": 16}
    after = changed(found, **changes, gradient_checkpointing="none", attention="sdpa", liger=True)
    back = rewritten(found, after)
    assert back.notes == () and back.plan == after
    lines = [line for line in patch(found, back).splitlines() if line[:1] in "+-"][2:]
    assert "+    per_device_train_batch_size=2,  # what fits" in lines
    # A dictionary that a call takes is changed where it stands.
    changed_line = [line for line in lines if line.startswith("+common")]
    assert changed_line == [
        '+common = {"learning_rate": 2e-4, "bf16": True, "gradient_checkpointing": False}'
    ]
    # A setting that is not there yet goes into the call that takes it.
    ast.parse(back.texts["train.py"])
    (arguments,) = [
        node
        for node in ast.walk(ast.parse(back.texts["train.py"]))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "TrainingArguments"
    ]
    assert "use_liger_kernel" in {keyword.arg for keyword in arguments.keywords}


PARSED = """\
from dataclasses import dataclass, field
from typing import Optional
import transformers
from peft import LoraConfig, get_peft_model


@dataclass
class ModelArguments:
    model_name_or_path: Optional[str] = field(default="facebook/opt-125m")
    lora_size: int = 64


@dataclass
class TrainingArguments(transformers.TrainingArguments):
    optim: str = field(default="adamw_torch")
    model_max_length: int = field(default=512, metadata={"help": "longer rows are cut"})


class Own(transformers.Trainer):
    def log(self, logs):
        pass


def main():
    parser = transformers.HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        model_args.model_name_or_path, cache_dir=training_args.cache_dir
    )
    model = get_peft_model(model, LoraConfig(r=model_args.lora_size, target_modules="all-linear"))
    Own(model=model, args=training_args).train()
"""
LINE = (
    "torchrun --nproc_per_node=4 --nnodes 2 code/train.py --model_name_or_path /data/Qwen2.5-7B "
    "--bf16 True --output_dir out --per_device_train_batch_size 2 --max_steps 30 "
    "--gradient_accumulation_steps 16 --lora_size 8 --activation_checkpointing "
    "--save_strategy no --deepspeed zero.json\n"
)
ZERO = """\
{"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
 "bf16": {"enabled": "auto"},
 "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": true,
                       "offload_optimizer": {"device": "cpu"}}}
"""


def test_a_scripts_options_are_what_it_hands_on() -> None:
    found = read({"run.sh": LINE, "train.py": PARSED, "zero.json": ZERO})
    assert values(found, "model", "lora_rank", "lora_targets") == (
        *("Qwen/Qwen2.5-7B", 8), "all-linear"
    )
    assert values(found, "gpus", "gpus_per_node", "sharding") == (8, 4, "zero3")
    assert values(found, "offload", "gradient_checkpointing") == ("optimizer", "full")
    # 2 rows x 16 micro-batches x 8 processes; DeepSpeed steps in its own optimizer
    assert values(found, "prompts_per_update", "save_steps", "steps") == (256, 0, 30)
    # The class's own defaults, where no flag says otherwise.
    assert values(found, "prompt_tokens", "response_tokens") == (256, 256)
    assert values(found, "optimizer") == ("adamw-foreach",)
    assert found.reading.unknown == [] and found.reading.beyond == []
    (dtype,) = (one for one in found.reading.open if one.name == "dtype")
    assert dtype.opens[0].default == "bf16" and not dtype.asked
    # What a class of the script does otherwise is said.
    own = PARSED.replace("def log(self, logs)", "def compute_loss(self, model, inputs)")
    (beyond,) = read({"run.sh": LINE, "train.py": own, "zero.json": ZERO}).reading.beyond
    assert (beyond.name, beyond.value) == ("trainer.class.compute_loss", "Own")
    further = own.replace("class Own(", "class Base(").replace(
        "def main", "class Own(Base):\n    pass\n\n\ndef main"
    )
    (beyond,) = read({"run.sh": LINE, "train.py": further, "zero.json": ZERO}).reading.beyond
    assert (beyond.name, beyond.value) == ("trainer.class.compute_loss", "Own")
    back = rewritten(found, changed(found, lora_rank=4, liger=True))
    lines = [line for line in patch(found, back).splitlines() if line.startswith("+")][1:]
    assert len(lines) == 1 and "--lora_size 4" in lines[0] and "--use_liger_kernel True" in lines[0]
    assert back.plan.lora_rank == 4 and back.plan.liger


ARGPARSE = """\
import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--rows", "-r", type=int, default=2)
parser.add_argument("--base", dest="model", default="Qwen/Qwen3-4B")
parser.add_argument("--lr", type=float, default=1e-5)
options = parser.parse_args()
common = dict(bf16=True, max_steps=40)
args = TrainingArguments(output_dir="out", per_device_train_batch_size=options.rows, **common)
model = AutoModelForCausalLM.from_pretrained(options.model, torch_dtype="bfloat16")
Trainer(model, args).train()
"""


def test_argparses_options_are_what_the_script_hands_on() -> None:
    found = read({"train.py": ARGPARSE}, prompt_tokens=64, response_tokens=64)
    assert values(found, "model", "micro_batch_size", "steps") == ("Qwen/Qwen3-4B", 2, 40)
    line = "accelerate launch --num_processes 2 train.py --rows 4 --base Qwen/Qwen2.5-0.5B\n"
    said = read({"train.py": ARGPARSE, "run.sh": line}, prompt_tokens=64, response_tokens=64)
    assert values(said, "model", "micro_batch_size", "gpus") == ("Qwen/Qwen2.5-0.5B", 4, 2)
    assert said.reading.unknown == [] and said.reading.beyond == []
    # What its command line does not know is no further argument of the command.
    back = rewritten(said, changed(said, gradient_checkpointing="full", steps=41))
    assert back.texts["run.sh"] == line and back.notes == ()
    assert "common = dict(bf16=True, max_steps=41)" in back.texts["train.py"]
    assert "activation_checkpointing=True" in back.texts["train.py"]
    # Nor where no call of the script takes it: then it is told.
    away = ARGPARSE.replace("Trainer(model, args)", "Trainer(model, made())")
    away = away.replace(next(row for row in away.splitlines() if "args = Tr" in row), "")
    said = read({"train.py": away, "run.sh": line}, prompt_tokens=64, response_tokens=64)
    back = rewritten(said, changed(said, gradient_checkpointing="full"))
    assert back.texts["run.sh"] == line and "activation_checkpointing True" in back.notes[0]


def rests(found: Imported, name: str) -> set[str]:
    return {each.name for one in found.reading.open if one.name == name for each in one.opens}


SMALL = SCRIPT.replace("use_cache=False", "quantization_config=small").replace(
    "tokenizer =", "small = BitsAndBytesConfig(load_in_4bit=True) if {} else None\ntokenizer ="
)


@pytest.mark.parametrize(
    ("test", "four_bit", "rested"),
    [
        ("True", True, False),
        ("2 - 2", False, False),
        ("options.small", True, True),
        ("options.big", True, True),
        ("not options.big", False, True),
        ("options.none", False, True),
    ],
)
def test_a_side_of_a_choice_is_taken_as_far_as_the_text_says(
    test: str, four_bit: bool, rested: bool
) -> None:
    declared = (
        'p.add_argument("--big", default=True)\np.add_argument("--none", default=False)\n'
        "options = p.parse_args()\n"
    )
    found = read({"train.py": declared + SMALL.replace("{}", test)})
    assert found.reading.plan["finetuning"] == ("qlora" if four_bit else "lora")
    assert rests(found, "load_in_4bit") == ({test} if rested else set())
    # A flag decides what an option's default would.
    line = "python train.py --small False --big False\n"
    said = read({"train.py": declared + SMALL.replace("{}", test), "run.sh": line})
    small = test in ("True", "not options.big")
    assert said.reading.plan["finetuning"] == ("qlora" if small else "lora")


FIRE = """\
import fire
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

def train(base: str = "", rows: int = 4, together: int = 128, rank: int = 8):
    steps = together // rows
    model = AutoModelForCausalLM.from_pretrained(base, dtype="bfloat16")
    args = TrainingArguments("out", per_device_train_batch_size=rows,
                             gradient_accumulation_steps=steps, max_steps=10)
    Trainer(model=model, args=args).train()

fire.Fire(train)
"""


def test_parameters_of_a_function_are_the_command_lines() -> None:
    line = "python train.py --base Qwen/Qwen3-4B {}\n"
    found = read({"train.py": FIRE, "run.sh": line.format("")})
    assert values(found, "model", "micro_batch_size") == ("Qwen/Qwen3-4B", 4)
    assert values(found, "prompts_per_update") == (128,)
    found = read({"train.py": FIRE, "run.sh": line.format("--rows 8")})
    assert values(found, "micro_batch_size") == (8,) and found.reading.unknown == []
    # What is calculated of one that was given is nobody's word: it is asked for.
    assert {"--rows"} <= rests(found, "gradient_accumulation_steps")
    assert "prompts_per_update" in found.asks


def test_an_option_that_is_declared_elsewhere_is_asked_for() -> None:
    away = PARSED.replace("    lora_size: int = 64\n", "")
    texts = {"run.sh": LINE.replace("--lora_size 8 ", ""), "train.py": away, "zero.json": ZERO}
    assert "lora_rank" in read(texts).asks
    said = {**texts, "run.sh": LINE.replace("--lora_size 8", "--lora_size 6")}
    assert values(read(said), "lora_rank") == (6,)
    # An option that all of a call rests on is no branch that it stands in.
    alone = PARSED.replace(', target_modules="all-linear"', "")
    assert values(read({**said, "train.py": alone}), "finetuning", "lora_rank") == ("lora", 6)


def test_an_argument_file_that_is_the_only_word_of_a_command() -> None:
    mine = '{"output_dir": "x", "max_steps": 4, "bf16": true, "optim": "sgd"}'
    found = read({"run.sh": "python train.py mine.json", "mine.json": mine})
    assert found.reading.plan["steps"] == 4 and found.reading.unknown == []


FLAGS = (
    "--per-device-train-batch-size=2 --bf16",
    "--activation_checkpointing --max_steps 7 --save_steps=0.5",
    "--no_dataloader_pin_memory --optim sgd --eval_strategy steps --eval_steps 3",
    "--fp16 true --activation_checkpointing_kwargs {\"use_reentrant\":false} --logging_first_step",
    "--torch_empty_cache_steps 1 --ddp_find_unused_parameters false --per_device_train_b 5",
)  # fmt: skip


@pytest.mark.parametrize("line", FLAGS)
def test_flags_are_taken_apart_as_their_parser_does(line: str, tmp_path: Path) -> None:
    line = line.replace("_b 5", "_batch_size 5")
    parser = HfArgumentParser(TrainingArguments)  # type: ignore[arg-type]
    words = ["--output_dir", str(tmp_path), "--use_cpu", *line.split()]
    (theirs,) = parser.parse_args_into_dataclasses(words)
    shell = " ".join(f"'{word}'" for word in line.split())
    example = "--model_name_or_path Qwen/Qwen3-4B --block_size 64 --learning_rate 1e-4"
    command = f"torchrun --nproc_per_node 2 run_clm.py {example} --output_dir out "
    found = read({"run.sh": f"{command} --per_device_eval_batch_size 8 --seed 1 {shell}\n"})
    assert found.framework == "hf_trainer" and found.reading.unknown == []
    entries = (*found.reading.understood, *found.reading.beyond)
    told = {one.name: one.value for one in entries if one.name in vars(theirs) and one.place}
    assert len(told) >= 2
    for name, value in told.items():
        given = getattr(theirs, name)
        assert str(getattr(given, "value", given)) == str(value), name
    assert values(found, "batch_shape", "prompt_tokens") == ("full", 32)


OURS = "torchrun {} --model_name_or_path Qwen/Qwen3-4B --output_dir out --bf16 --max_steps 9"


@pytest.mark.parametrize(
    ("texts", "framework"),
    [
        ({"run.sh": OURS.format("run_clm.py")}, "hf_trainer"),
        ({"run.sh": OURS.format("src/finetune.py")}, "hf_trainer"),
        ({"a.yaml": "output_dir: x\nmax_steps: 4\nbf16: true\nlearning_rate: 1.0e-5\n"
          "per_device_train_batch_size: 2\n"}, "hf_trainer"),
        ({"run.sh": "python train.py mine.json", "mine.json":
          '{"output_dir": "x", "max_steps": 4, "bf16": true, "optim": "sgd"}'}, "hf_trainer"),
        ({"train.py": "from transformers import TrainingArguments\n"
          "a = TrainingArguments(output_dir='x', bf16=True)\n"}, "hf_trainer"),
        # What subclasses it is not it.
        ({"train.py": "from trl import SFTTrainer\nfrom transformers import TrainingArguments\n"
          "a = TrainingArguments('x', bf16=True)\nSFTTrainer('Qwen/Qwen3-4B', args=a)\n"}, "trl"),
        ({"train.py": "import trl\nclass Mine(trl.GRPOTrainer):\n  pass\n"
          "Mine('Qwen/Qwen3-4B', args=trl.GRPOConfig('x', beta=0.1))\n"}, "trl"),
        ({"train.py": "from trl import KTOTrainer, KTOConfig\n"
          "KTOTrainer('Qwen/Qwen3-4B', args=KTOConfig('x', bf16=True))\n"}, "trl"),
        ({"train.py": "from somewhere import PolicyTrainer\nfrom transformers import "
          "TrainingArguments\nPolicyTrainer(args=TrainingArguments('x', bf16=True))\n"}, ""),
        ({"run.sh": OURS.format("dpo_train.py")}, ""),
        ({"ds.json": ZERO.replace('"bf16"', '"fp16": {"enabled": false}, "bf16"')}, ""),
        ({"run.sh": OURS.format("train.py") + " --beta 0.1"}, ""),
        ({"run.sh": OURS.format("train.py") + " --num_generations 8"}, ""),
        ({"run.sh": OURS.format("src/train.py") + " --stage sft --finetuning_type lora "
          "--cutoff_len 1024"}, ""),
        ({"run.sh": OURS.format("trl/scripts/sft.py") + " --packing --max_length 9"}, "trl"),
        ({"a.yaml": "model_name_or_path: Qwen/Qwen3-4B\nmax_length: 1024\npacking: true\n"
          "per_device_train_batch_size: 2\nbf16: true\n"}, "trl"),
    ],
)  # fmt: skip
def test_whose_run_it_is(texts: Mapping[str, str], framework: str) -> None:
    assert read(texts).framework == framework


@pytest.mark.parametrize(
    ("words", "dtype", "master"),
    [
        # FSDP widens what it trains under autocast; without, weights stay as they are.
        ("--fsdp full_shard --bf16", "bf16", "fp32"),
        ("--fsdp full_shard", "bf16", "none"),
        ("--fsdp full_shard --fp16", "fp16", "fp32"),
        ("--bf16", "bf16", "none"),
        ("--bf16 --dtype float32", "bf16", "fp32"),
        ("--dtype float32", "fp32", "none"),
    ],
)
def test_dtypes_of_a_checkpoint_that_nobody_names(words: str, dtype: str, master: str) -> None:
    found = read({"run.sh": OURS.format("--nproc_per_node 4 run_clm.py").replace("--bf16", words)})
    assert values(found, "dtype", "master_dtype") == (dtype, master)
    assert bool(rests(found, "dtype")) == ("--dtype" not in words)
    assert found.plan is not None and found.plan.master_dtype == master


def test_a_program_that_is_not_here_is_named() -> None:
    found = read({"run.sh": OURS.format("src/finetune.py")})
    assert [one.name for one in found.reading.beyond] == ["program"]
    assert read({"run.sh": OURS.format("run_clm.py")}).reading.beyond == []
    for program in ("run_glue.py", "examples/pytorch/translation/run_translation.py"):
        other = read({"run.sh": OURS.format(program)})
        assert other.framework == "hf_trainer" and other.plan is None
        assert f"{program} is no causal language model" in other.notes[0]
    script = SCRIPT.replace("ForCausalLM", "ForSequenceClassification")
    assert read({"train.py": script}).plan is None


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ('optim="adamw_torch"', 'optim="adafactor"', "optim"),
        ("use_cache=False", 'device_map="auto"', "device_map"),
        ("use_cache=False", "load_in_8bit=True", "load_in_8bit"),
        ('bias="none"', "use_dora=True", "lora.use_dora"),
        ("max_steps=500", "label_smoothing_factor=0.1", "label_smoothing_factor"),
        ("max_steps=500", "use_liger_kernel=True", "liger_kernel_config"),
        ("args=args", "args=args, optimizers=(mine, None)", "trainer.optimizers"),
        ("args=args", "args=args, compute_loss_func=loss", "trainer.compute_loss_func"),
    ],
)
def test_what_no_field_has_is_named(old: str, new: str, name: str) -> None:
    assert old in SCRIPT
    found = read({"train.py": SCRIPT.replace(old, new)})
    assert [one.name for one in found.reading.beyond] == [name]


def test_four_bit_weights_are_refused_by_name() -> None:
    script = SCRIPT.replace("use_cache=False", "quantization_config=small").replace(
        "tokenizer =", "small = BitsAndBytesConfig(load_in_4bit=True)\ntokenizer ="
    )
    (problem,) = read({"train.py": script}).problems
    assert "4-bit" in problem.sentence


def test_a_call_under_a_condition_rests_on_it() -> None:
    script = SCRIPT.replace(
        "model = get_peft_model(model, config)",
        "if options.small:\n    model = get_peft_model(model, LoraConfig(r=8))",
    ).replace('config = LoraConfig(r=32, lora_alpha=64, target_modules=["q_proj", "v_proj"], '
              'bias="none")\n', "")  # fmt: skip
    found = read({"train.py": script})
    rests = {each.name for one in found.reading.open for each in one.opens}
    assert "options.small" in rests and values(found, "finetuning", "lora_rank") == ("lora", 8)


@pytest.mark.parametrize("kind", ["none", "fsdp2", "zero3"])
def test_the_exported_program_comes_back_with_other_values(kind: str) -> None:
    """Text by text, as a person would drop the bundle: shell script, program, files."""
    base = {"framework": "hf_trainer", "method": "sft", "model": "Qwen/Qwen2.5-1.5B"}
    more = {"gpus": 1 if kind == "none" else 8, "sharding": kind, "gpu": "h100-80gb"}
    plan = Plan(**base, **more, finetuning="lora", dtype="bf16", batch_shape="full")
    written = {file.name: file.text for file in export(plan, "hf_trainer").files}
    texts = {name: written[name] for name in written if name.endswith((".sh", ".yaml", "n.py"))}
    texts |= {name: text for name, text in written.items() if name == "deepspeed.json"}
    found = read(texts)
    assert found.plan is not None
    assert values(found, "sharding", "batch_shape", "lora_rank") == (kind, "full", plan.lora_rank)
    after = changed(found, lora_rank=4, prompt_tokens=100, liger=True, empty_cache="every-step")
    back = rewritten(found, after)
    assert back.notes == () and back.plan == after
    told = plan_in(back.texts["train.py"])
    assert (told["prompt_tokens"], told["lora"]["r"]) == (100, 4)
    assert told["use_liger_kernel"] is True and told["torch_empty_cache_steps"] == 1


def test_adapters_that_nothing_says_yet_go_where_they_are_taken() -> None:
    base = {"framework": "hf_trainer", "method": "sft", "model": "Qwen/Qwen2.5-1.5B"}
    plan = Plan(**base, gpu="h100-80gb", finetuning="full", dtype="bf16")
    found = read({file.name: file.text for file in export(plan, "hf_trainer").files})
    lora = {"finetuning": "lora", "lora_rank": 4, "lora_targets": "q_proj,v_proj"}
    lora |= {"master_dtype": "fp32", "base_dtype": "compute", "gradient_dtype": "fp32"}
    after = changed(found, **lora)
    back = rewritten(found, after)
    assert back.notes == () and back.plan == after
    told = plan_in(back.texts["train.py"])["lora"]
    assert (told["r"], told["target_modules"]) == (4, ["q_proj", "v_proj"])
    # Beside others of a section that is there, nothing is written twice.
    dropout = f"'lora_dropout': {told['lora_dropout']}, "
    assert dropout in back.texts["train.py"]
    short = {**back.texts, "train.py": back.texts["train.py"].replace(dropout, "")}
    found = read(short)
    left = rewritten(found, changed(found, lora_dropout=0.1))
    assert left.texts["train.py"] == short["train.py"] and "lora.lora_dropout" in left.notes[0]
    # In a script of somebody's own, into the call of peft's class.
    found = read({"train.py": SCRIPT})
    back = rewritten(found, changed(found, lora_dropout=0.1))
    assert back.plan.lora_dropout == 0.1
    assert 'bias="none", lora_dropout=0.1)' in back.texts["train.py"]


@pytest.mark.parametrize("name", MODEL)
def test_the_models_own_settings_have_rows(name: str) -> None:
    (row,) = [row for row in all_settings() if row.name == name]
    assert "from_pretrained" in row.source and row.fields


JUNK = ("", "-1", "1e400", "[", "None", "9" * 400, [1, [2]], {"a": {}}, None, 1e308, -5, {"": 1})


def test_any_value_of_any_setting_is_read_or_named() -> None:
    """What a text has for a value is never an error of ours, whatever its kind."""
    from planner.frameworks.hf_trainer.importer import imported as reads
    from planner.importer.given import Given, Launch, Word

    launch, number = Launch("run_clm.py", (Word("--config"), Word("c.yaml"))), 0
    beside = ("environment.",)
    for row in (one for one in all_settings() if not one.name.startswith(beside)):
        for value in JUNK[number % 5 :: 5]:
            number += 1
            config = (Given(ADAPTERS, True), Given(row.name, value))
            reading = reads(launch, {"c.yaml": config}, ())
            lists = (reading.understood, reading.beyond, reading.open, reading.unknown,
                     reading.no_effect, reading.from_defaults)  # fmt: skip
            found = {entry.name for entries in lists for entry in entries}
            assert any(f"{name}.".startswith(f"{row.name}.") for name in found), row.name
    assert number > 400
