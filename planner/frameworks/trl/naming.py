"""Other spellings of settings: older names, and those of a Python script."""

from __future__ import annotations

import re

from planner.frameworks.trl.rows import beyond, row
from planner.importer.huggingface.calls import MODEL, Spoken
from planner.launch.huggingface import training
from planner.values.setting import Setting

EARLIER = "configurations of earlier releases"
OLDER: tuple[Setting, ...] = (
    row(
        *(EARLIER, "max_prompt_length", None, "prompt_tokens"),
        unit="tokens",
        read=lambda value, values: {"prompt_tokens": int(value)} if value else {},
    ),
    *training.EARLIER,
    *beyond("earlier"),
)
"""What earlier releases took, and people's scripts still say."""

RENAMED = {
    "max_seq_length": "max_length",
    "vllm_max_model_len": "vllm_max_model_length",
}
PEFT = {
    "r": "lora_r",
    "target_modules": "lora_target_modules",
    "target_parameters": "lora_target_parameters",
    "modules_to_save": "lora_modules_to_save",
    "task_type": "lora_task_type",
    "bnb_4bit_use_double_quant": "use_bnb_nested_quant",
}
"""Arguments of ``LoraConfig`` and ``BitsAndBytesConfig`` under the names of TRL's ModelConfig."""
ADAPTED = re.compile(r"lora_|load_in_|use_|bnb_")
REWARD = "reward_model_name_or_path"
TRAINER = {"0": MODEL, "model": MODEL, "1": REWARD, "reward_funcs": REWARD}
"""Arguments of a trainer that name a model where they are a text; of DPO's the second is none."""


def _peft(owner: str, name: str) -> str:
    return PEFT.get(name) or (name if ADAPTED.match(name) else "")


def spoken(arguments: str) -> Spoken:
    """How a script calls the settings of a trainer, by the class of its arguments."""
    return Spoken(
        arguments=arguments, adapters="use_peft", peft=_peft, renamed=RENAMED, models=TRAINER
    )
