"""Supervised fine-tuning by transformers' own Trainer: the model itself computes the loss.

Loss, accumulation, clipping, sharding and checkpoints are the Trainer's and accelerate's. Start it
with launch.sh.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import peft
import torch
import transformers

from planner.launch.pieces.preflight import check_card

PLAN: dict[str, Any] = {}

IGNORED = -100
"""The label of a token that is not learned from."""


def started(plan: Mapping[str, Any]) -> tuple[argparse.Namespace, torch.device]:
    """Options, and this process's device; stops with a sentence where there is none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, metavar="FILE", help="a JSONL file")
    parser.add_argument("--output", default="output", metavar="DIR", help="where the result goes")
    parser.add_argument("--model", default=plan["model_name_or_path"], help="a Hub id or a folder")
    parser.add_argument("--revision", default=None, help="a commit, branch or tag of the model")
    parser.add_argument("--learning-rate", type=float, default=None)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--anyway", action="store_true", help="go on where the card is too small")
    parser.add_argument("--dry", action="store_true", help="check the card, then stop")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("device: there is no CUDA device here; pass --device cpu to run anyway.")
    place = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    return options, torch.device(place if options.device == "cuda" else "cpu")


def examples_of(
    plan: Mapping[str, Any], path: str, tokenizer: Any
) -> list[dict[str, list[int]]]:
    """Ids and labels of every row within the planned lengths; says how many were longer.

    Rows have the texts ``prompt`` and ``response``; the response is learned, and its end.
    """
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    end, found = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id], []
    for number, row in enumerate(rows, 1):
        if not all(isinstance(row.get(name), str) for name in ("prompt", "response")):
            raise SystemExit(f"data: line {number} of {path} lacks a text prompt or response.")
        prompt = tokenizer(row["prompt"])["input_ids"]
        response = tokenizer(row["response"], add_special_tokens=False)["input_ids"] + end
        if len(prompt) <= plan["prompt_tokens"] and len(response) <= plan["response_tokens"]:
            labels = [IGNORED] * len(prompt) + response
            ids = prompt + response
            found.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels})
    longest = plan["prompt_tokens"] + plan["response_tokens"]
    left_out = len(rows) - len(found)
    print(f"Data: {len(found)} rows of at most {longest} tokens; left out: {left_out}.")
    if not found:
        raise SystemExit(f"data: no row of {path} is within the planned lengths.")
    if plan["batch_shape"] == "full" and any(len(each["labels"]) != longest for each in found):
        raise SystemExit(
            f"data: the plan's rows are full, so each needs {longest} tokens; plan padded rows for "
            "this file."
        )
    return found


def model_of(plan: Mapping[str, Any], options: argparse.Namespace) -> Any:
    """The model from safetensors, never code that comes with it; with adapters if planned."""
    kind: Any = transformers.AutoModelForCausalLM
    model, info = kind.from_pretrained(
        options.model,
        revision=options.revision,
        dtype=plan["dtype"],
        attn_implementation=plan["attn_implementation"],
        use_safetensors=True,
        trust_remote_code=False,
        output_loading_info=True,
    )
    if missing := sorted(info["missing_keys"]):
        raise SystemExit(f"{options.model} has no {missing[0]}: it is no {type(model).__name__}.")
    if "lora" in plan:
        return peft.get_peft_model(model, peft.LoraConfig(**plan["lora"]))
    return model


def main() -> None:
    """One run, in each of the processes that ``accelerate launch`` starts."""
    options, device = started(PLAN)
    check_card(PLAN, device, options.anyway)
    if options.dry:
        return
    names = {field.name for field in dataclasses.fields(transformers.TrainingArguments)}
    told = {name: value for name, value in PLAN.items() if name in names}
    if options.learning_rate is not None:
        told["learning_rate"] = options.learning_rate
    arguments = transformers.TrainingArguments(
        **told, output_dir=options.output, use_cpu=options.device == "cpu"
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        options.model, revision=options.revision, trust_remote_code=False
    )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    trainer = transformers.Trainer(
        model=model_of(PLAN, options),
        args=arguments,
        train_dataset=examples_of(PLAN, options.data, tokenizer),
        data_collator=transformers.DataCollatorForSeq2Seq(tokenizer),
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model(options.output)
    trainer.accelerator.print(f"Done: {options.output}")


if __name__ == "__main__":
    main()
