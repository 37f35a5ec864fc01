"""TRL 1.16.0: a YAML for TRL's script and one for ``accelerate launch``; or a program around TRL.

Names and defaults were read from the wheels (2026-11-20); a test reads every export
with TRL's own parser and accelerate's own configuration.
"""

from __future__ import annotations

from planner.formulas.lora import ALL_LINEAR
from planner.frameworks.trl import FRAMEWORK
from planner.frameworks.trl.accelerate import (
    ACCELERATE,
    accelerate_files,
    activations_by_accelerate,
    activations_by_trainer,
    mixed_precision,
    nodes,
)
from planner.frameworks.trl.limits import obstacles as obstacles
from planner.frameworks.trl.limits import sequences_at_once, training_gpus, zero
from planner.frameworks.trl.limits import weighted_obstacles as weighted_obstacles
from planner.frameworks.trl.program_files import program_files, program_notes
from planner.frameworks.trl.script import Script
from planner.launch import reward
from planner.launch.bundle.environment import environment_file, reading
from planner.launch.launch import ONLINE, Launch, LaunchFile
from planner.launch.script import (
    Expanded,
    chosen,
    command,
    expand,
    given,
    header,
    required,
    yaml_text,
)
from planner.launch.weights import weights_lines, weights_option, weights_word
from planner.launch.words import (
    ATTENTION,
    attention_packages,
    entropy_note,
    full_rows_note,
    kernels,
    lora_targets,
    other_framework_note,
    own_settings,
    variation_note,
)
from planner.numeric import ceil_div
from planner.plan import Plan
from planner.plan.trainers import trainer_of
from planner.units import read_count
from planner.values.dtypes import TORCH_NAMES
from planner.values.sharding import sharding_of

VERSION = FRAMEWORK.versions[0]

BETA = 0.001
"""KL coefficient: what GRPOConfig's documentation quotes of DeepSeek-R1; TRL's default is 0."""
ENTROPY_COEFFICIENT = 0.001

SCORE = '''

def compute_score(completions, answer, **columns):
    """TRL's reward function: one number per completion; `answer` is a dataset column."""
    texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
    return [score(text, expected) for text, expected in zip(texts, answer)]
'''
"""What TRL calls, asking ``score``."""


def write(plan: Plan, link: str) -> Launch:
    """The trainer's YAML or program, accelerate's (and DeepSpeed's) files, scripts, the reward."""
    return _written(plan, link, _script_of(plan).program)


def write_weighted(plan: Plan, link: str, weights: str) -> Launch:
    """The same for prompts drawn by density weights: ``online``, or a sampling run's folder."""
    flags = () if weights == ONLINE else ("--use-precomputed-embeddings", weights)
    return _written(plan, link, _script_of(plan).weighted, flags)


def _written(plan: Plan, link: str, program: str, flags: tuple[str, ...] = ()) -> Launch:
    notes = _notes(plan, program)
    install = f"pip install {' '.join(_packages(plan))}"
    about = (
        f"TRL {VERSION}: {plan.method} of {plan.model} on {read_count(plan.gpus, 'GPU')}.",
        link,
        f"Install: {install}",
        *notes,
    )
    files = [
        LaunchFile(name="launch.sh", text=_script(plan, about, program, flags)),
        *(
            program_files(plan, program, settings(plan), about[:2], _packages(plan))
            if program
            else (LaunchFile(name=_config(plan), text=yaml_text(settings(plan), *about[:2])),)
        ),
        *accelerate_files(plan),
        environment_file(plan),
    ]
    if _asks_reward_file(plan):
        files.append(reward.reward_file(SCORE, plan.reward))
    if plan.rollout == "vllm-separate":
        files.append(LaunchFile(name="engine.sh", text=_engine_script(plan, about)))
    return Launch(
        framework=FRAMEWORK.name, version=VERSION, files=tuple(files), install=install, notes=notes
    )


def _config(plan: Plan) -> str:
    return f"{plan.method}.yaml"


def _asks_reward_file(plan: Plan) -> bool:
    script = _script_of(plan)
    return script.samples and script.rewarded and plan.reward != "model"


def _weights_dtype(plan: Plan) -> str:
    """Dtype the weights are loaded in; TRL's own default is float32.

    FSDP copies what it trains to fp32 by itself under mixed precision, DeepSpeed keeps
    fp32 copies beside half-precision weights, and peft makes its adapters fp32. Only
    plain and DDP training need the whole model in fp32 for an fp32 master.
    """
    replicated = sharding_of(plan).replicated
    if plan.finetuning == "lora" and plan.base_dtype == "fp32":
        return "float32"
    if plan.finetuning == "full" and replicated and plan.master_dtype == "fp32":
        return "float32"
    return TORCH_NAMES[plan.dtype]


BITSANDBYTES = ("adamw_bnb_8bit", "paged_adamw_8bit")


def _optimizer(plan: Plan) -> str:
    if plan.optimizer == "adamw-8bit":
        # torchao's states can be sharded as DTensors; bitsandbytes' cannot (bitsandbytes#1633).
        return "adamw_torch_8bit" if sharding_of(plan).fsdp == 2 else "adamw_bnb_8bit"
    return {
        "adamw-fused": "adamw_torch_fused",
        "adamw-foreach": "adamw_torch",
        "paged-adamw-8bit": "paged_adamw_8bit",
        "sgd": "sgd",
    }[plan.optimizer]


def _accumulation(plan: Plan) -> int:
    """Of an update whose rest is filled up: TRL's is always of whole micro-batches."""
    together = plan.micro_batch_size * training_gpus(plan)
    return int(ceil_div(plan.prompts_per_update * plan.responses_per_prompt, together))


def _own_steps(plan: Plan) -> int:
    """What TRL calls steps, its optimizer's, in one of the plan's."""
    updates = plan.prompts_per_step // plan.prompts_per_update
    return int(updates * (1 if plan.optimizer_step == "update" else _accumulation(plan)))


def settings(plan: Plan) -> dict[str, object]:
    """Every setting of TRL's own script that the plan decides."""
    sampled = _script_of(plan).samples
    own = trainer_of(FRAMEWORK.name, plan.method).own
    pairs = own.arguments(plan) if own else {}
    more = _sampled(plan) if sampled else pairs or _given(plan)
    return given({**training(plan), **more})


def training(plan: Plan) -> dict[str, object]:
    """What every trainer is told."""
    precision = mixed_precision(plan)
    accumulates, own_steps = plan.optimizer_step == "update", _own_steps(plan)
    by_trainer = plan.gradient_checkpointing == "full" and not activations_by_accelerate(plan)
    values: dict[str, object] = {
        "model_name_or_path": plan.model,
        "dtype": _weights_dtype(plan),
        "bf16": precision == "bf16",
        "fp16": precision == "fp16",
        "attn_implementation": ATTENTION[plan.attention],
        "per_device_train_batch_size": plan.micro_batch_size,
        "gradient_accumulation_steps": _accumulation(plan) if accumulates else 1,
        "max_steps": plan.steps * own_steps,
        # TRL's own default saves, too, every 500 of its steps.
        "save_steps": plan.save_steps * own_steps or None,
        "gradient_checkpointing": by_trainer,
        "optim": _optimizer(plan),
        "report_to": "none",
        "use_liger_kernel": plan.liger or None,
        "torch_empty_cache_steps": 1 if plan.empty_cache == "every-step" else None,
        **(_adapters(plan) if plan.finetuning != "full" else {}),
    }
    return given(values)


def _adapters(plan: Plan) -> dict[str, object]:
    four_bit = plan.finetuning == "qlora" or None
    modules, tensors = lora_targets(plan)
    return {
        "use_peft": True,
        "lora_r": plan.lora_rank,
        # TRL makes text of a list of one, which peft reads as a pattern of whole paths.
        "lora_target_modules": list(modules) if len(modules) != 1 else [_pattern(*modules)],
        "lora_target_parameters": list(tensors) or None,
        # TRL's own default is 0.05.
        "lora_dropout": plan.lora_dropout,
        "load_in_4bit": four_bit,
        # The plan counts scales that are quantised once more; TRL's default leaves them in fp32.
        "use_bnb_nested_quant": four_bit,
    }


def _pattern(target: str) -> str:
    return target if target == ALL_LINEAR else rf".*\.{target}"


def _given(plan: Plan) -> dict[str, object]:
    return {
        "max_length": plan.prompt_tokens + plan.response_tokens,
        "packing": plan.batch_shape == "packed",
        "activation_offloading": activations_by_trainer(plan) or None,
    }


def _sampled(plan: Plan) -> dict[str, object]:
    updates = plan.prompts_per_step // plan.prompts_per_update
    values: dict[str, object] = {
        "num_generations": plan.responses_per_prompt,
        "max_completion_length": plan.response_tokens,
        "steps_per_generation": _accumulation(plan) * updates,
        "temperature": plan.temperature,
        "beta": 0.0 if plan.kl == "none" else BETA,
        "entropy_coef": _entropy(plan),
        "use_vllm": plan.rollout != "hf",
        **trainer_of(FRAMEWORK.name, plan.method).told(plan),
        **(_validation(plan) if plan.eval_steps else {}),
    }
    if plan.reward == "model" and _script_of(plan).rewarded:
        values["reward_model_name_or_path"] = plan.reward_model or plan.model
    elif _asks_reward_file(plan):
        values["reward_funcs"] = [f"{reward.NAME.removesuffix('.py')}.{reward.FUNCTION}"]
    if plan.rollout == "vllm-colocated":
        values |= {
            "vllm_mode": "colocate",
            "vllm_gpu_memory_utilization": plan.gpu_memory_utilization,
            "vllm_tensor_parallel_size": plan.rollout_tensor_parallel,
            "vllm_max_model_length": plan.prompt_tokens + plan.response_tokens,
            "vllm_enable_sleep_mode": plan.vllm_sleep_level == 2,
        }
    elif plan.rollout == "vllm-separate":
        values["vllm_mode"] = "server"
    return values


def _validation(plan: Plan) -> dict[str, object]:
    return {
        "eval_strategy": "steps",
        "eval_steps": plan.eval_steps * _own_steps(plan),
        "per_device_eval_batch_size": plan.micro_batch_size,
        "num_generations_eval": 1,
    }


def _entropy(plan: Plan) -> float | None:
    """None where the trainer has no such setting."""
    if not _script_of(plan).entropy:
        return None
    return ENTROPY_COEFFICIENT if plan.entropy else 0.0


def _script_of(plan: Plan) -> Script:
    found: Script = trainer_of(FRAMEWORK.name, plan.method).export
    return found


def _shares_a_node(plan: Plan) -> bool:
    return bool(plan.rollout == "vllm-separate" and plan.gpus <= plan.gpus_per_node)


def _script(
    plan: Plan, about: tuple[str, ...], program: str, flags: tuple[str, ...]
) -> str:
    lines = [header(about), required("DATASET", "the name or path of the data set to train on")]
    lines += weights_lines(plan)
    words: list[str | Expanded] = ["accelerate", "launch", "--config_file", ACCELERATE]
    if nodes(plan) > 1:
        lines += [
            required("NODE_RANK", f"the number of this node, 0 to {nodes(plan) - 1}"),
            required("MASTER_ADDR", "the address of node 0"),
            required("MASTER_PORT", "a free port of node 0"),
        ]
        words += [
            *("--machine_rank", expand("", "NODE_RANK")),
            *("--main_process_ip", expand("", "MASTER_ADDR")),
            *("--main_process_port", expand("", "MASTER_PORT")),
        ]
    if program:
        lines.append('if [ -e "$DATASET" ]; then DATASET="$(realpath -- "$DATASET")"; fi')
        words += [
            *(program, "--dataset", expand("", "DATASET")),
            *weights_option(plan, "--model"),
            *("--output", expand("", "OUTPUT_DIR"), *flags),
        ]
    else:
        words += [
            *("-m", f"trl.scripts.{_script_of(plan).module}", "--config", _config(plan)),
            *weights_option(plan, "--model_name_or_path"),
            *("--dataset_name", expand("", "DATASET")),
            *("--output_dir", expand("", "OUTPUT_DIR")),
        ]
    if _asks_reward_file(plan) and plan.reward == "remote":
        lines += [required("REWARD_URL", "the address of the reward service"), "export REWARD_URL"]
    if plan.rollout == "vllm-separate":
        if _shares_a_node(plan):
            devices = ",".join(str(device) for device in range(training_gpus(plan)))
            lines += [f"export CUDA_VISIBLE_DEVICES={devices}", "ENGINE_HOST=127.0.0.1"]
        else:
            lines.append(required("ENGINE_HOST", "the address of the node that runs engine.sh"))
        words += ["--engine-host" if program else "--vllm_server_host", expand("", "ENGINE_HOST")]
    lines += [
        'OUTPUT_DIR="$(realpath -m -- "${OUTPUT_DIR:-output}")"',
        "# The files name each other, and reward.py is found, from this folder.",
        'cd -- "$(dirname -- "${BASH_SOURCE[0]}")"',
        *reading(),
        "python3 preflight.py",
        f'{command(words)} "$@"' if program else command(words),
    ]
    return "\n".join(lines) + "\n"


def _engine_script(plan: Plan, about: tuple[str, ...]) -> str:
    lines = [header(("Start this first: it serves the engine that launch.sh asks.", *about))]
    if _shares_a_node(plan):
        devices = ",".join(str(device) for device in range(training_gpus(plan), plan.gpus))
        lines.append(f"export CUDA_VISIBLE_DEVICES={devices}")
    lines += weights_lines(plan)
    words = [
        *("vllm", "serve", weights_word(plan), "--host", "0.0.0.0", "--port", "8000"),
        *("--tensor-parallel-size", str(plan.rollout_tensor_parallel)),
        *("--gpu-memory-utilization", str(plan.gpu_memory_utilization)),
        *("--max-model-len", str(plan.prompt_tokens + plan.response_tokens)),
        *("--max-num-seqs", str(plan.max_num_seqs)),
        *("--max-num-batched-tokens", str(plan.max_num_batched_tokens)),
        *("--dtype", TORCH_NAMES[plan.dtype], "--kv-cache-dtype", plan.kv_cache_dtype),
    ]
    if plan.enforce_eager:
        words.append("--enforce-eager")
    if not plan.async_scheduling:
        words.append("--no-async-scheduling")
    if plan.rollout_expert_parallel:
        words.append("--enable-expert-parallel")
    # What `trl vllm-serve` of this version passes; vLLM needs the first from 0.30 on.
    words += [
        *("--enable-scale-out", "--weight-transfer-config", '{"backend": "nccl"}'),
        *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"),
    ]
    lines += ["export VLLM_SERVER_DEV_MODE=1  # weight updates live behind it", command(words)]
    return "\n".join(lines) + "\n"


def _engine_is_vllm(plan: Plan) -> bool:
    return plan.rollout in ("vllm-colocated", "vllm-separate")


def _packages(plan: Plan) -> tuple[str, ...]:
    optimizer = _optimizer(plan)
    # vllm 0.31.0 is the newest that TRL supports; it needs torch 2.13.0, transformers < 5.18.
    engine = "vllm==0.31.0 torch==2.13.0 transformers==5.17.0"
    return chosen(
        (True, f"trl=={VERSION} accelerate==1.15.0 datasets==5.2.0"),
        (_engine_is_vllm(plan), engine),
        (not _engine_is_vllm(plan), f"torch=={plan.torch_version} transformers==5.23.0"),
        (plan.finetuning != "full", "peft==0.21.2"),
        (zero(plan), "deepspeed==0.19.8"),
        (optimizer in BITSANDBYTES or plan.finetuning == "qlora", "bitsandbytes==0.50.2"),
        (optimizer == "adamw_torch_8bit", "torchao==0.18.0"),
        *kernels(plan),
        *attention_packages(plan),
    )


def _validation_note(plan: Plan) -> tuple[bool, str]:
    if not plan.eval_steps or not _script_of(plan).samples:
        off = "Validation is off (eval_strategy no); turned on, it runs at the same length."
        return True, off
    return (
        True,
        f"The plan's validation has {plan.validation_responses:,} responses, one for each row of "
        "the data set's test split. TRL generates and scores one micro-batch after the other.",
    )


def _notes(plan: Plan, program: str) -> tuple[str, ...]:
    samples = _script_of(plan).samples
    gathered = plan.kl != "none" and plan.reference == "copy" and sharding_of(plan).fsdp == 2
    other_torch = _engine_is_vllm(plan) and plan.torch_version != "2.13.0"
    return chosen(
        (True, f"Checked against TRL {VERSION} with accelerate 1.15.0."),
        (True, own_settings(FRAMEWORK)),
        (
            samples,
            f"TRL does not cut prompts: keep rows with more than {plan.prompt_tokens} prompt "
            "tokens out of the data set.",
        ),
        (
            _asks_reward_file(plan),
            "reward.py reads the data set's column answer, beside prompt.",
        ),
        (
            plan.reference != "none" and not samples,
            "The data set has the columns chosen and rejected, and prompt unless both begin with "
            "it. DPO's beta is TRL's default, 0.1.",
        ),
        (
            plan.reference == "cached-logprobs",
            "TRL scores the data set with the reference before training, and keeps the log-probs "
            "in the data set's cache.",
        ),
        (
            plan.kl != "none",
            f"The KL coefficient (beta) is {BETA}, as in DeepSeek-R1; TRL's default is 0.",
        ),
        *((True, note) for note in program_notes(program)),
        entropy_note(plan, ENTROPY_COEFFICIENT),
        variation_note(plan),
        (
            plan.rollout == "vllm-colocated",
            f"TRL sets max_num_seqs to the {sequences_at_once(plan)} sequences an engine gets.",
        ),
        (gathered, "Under FSDP2, TRL gathers the whole reference at once for its forward."),
        (
            other_torch,
            f"vLLM needs torch 2.13.0; the plan was estimated for {plan.torch_version}.",
        ),
        full_rows_note(plan),
        _validation_note(plan),
        (
            plan.save_steps == 0,
            "The plan has no checkpoints; TRL writes one every 500 of its steps (save_steps) and "
            "after the last.",
        ),
        other_framework_note(plan, FRAMEWORK),
    )
