"""TRL 1.16.0: a YAML for TRL's script and one for ``accelerate launch``; or a program around TRL.

Names and defaults were read from the wheels (2026-11-20); a test reads every export
with TRL's own parser and accelerate's own configuration.
"""

from __future__ import annotations

from planner.frameworks.trl import FRAMEWORK
from planner.frameworks.trl.limits import obstacles as obstacles
from planner.frameworks.trl.limits import weighted_obstacles as weighted_obstacles
from planner.frameworks.trl.program_files import program_files, program_notes
from planner.frameworks.trl.sampled import (
    BETA,
    ENTROPY_COEFFICIENT,
    asks_reward_file,
    script_of,
)
from planner.frameworks.trl.settings import training_settings
from planner.frameworks.trl.words import sequences_at_once
from planner.launch import reward
from planner.launch.bundle.environment import environment_file, reading
from planner.launch.huggingface.accelerate import accelerate_files
from planner.launch.huggingface.processes import training_gpus, zero
from planner.launch.huggingface.starting import started
from planner.launch.huggingface.table import written
from planner.launch.huggingface.training import BITSANDBYTES, optimizer
from planner.launch.launch import ONLINE, Launch, LaunchFile
from planner.launch.script import (
    chosen,
    command,
    expand,
    header,
    required,
    yaml_text,
)
from planner.launch.weights import weights_lines, weights_option, weights_word
from planner.launch.words import (
    attention_packages,
    entropy_note,
    full_rows_note,
    kernels,
    other_framework_note,
    own_settings,
    variation_note,
)
from planner.plan import Plan
from planner.units import read_count
from planner.values.dtypes import TORCH_NAMES
from planner.values.sharding import sharding_of

VERSION = FRAMEWORK.versions[0]

SCORE = '''

def compute_score(completions, answer, **columns):
    """TRL's reward function: one number per completion; `answer` is a dataset column."""
    texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
    return [score(text, expected) for text, expected in zip(texts, answer)]
'''
"""What TRL calls, asking ``score``."""


def write(plan: Plan, link: str) -> Launch:
    """The trainer's YAML or program, accelerate's (and DeepSpeed's) files, scripts, the reward."""
    return _written(plan, link, script_of(plan).program)


def write_weighted(plan: Plan, link: str, weights: str) -> Launch:
    """The same for prompts drawn by density weights: ``online``, or a sampling run's folder."""
    flags = () if weights == ONLINE else ("--use-precomputed-embeddings", weights)
    return _written(plan, link, script_of(plan).weighted, flags)


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
    if asks_reward_file(plan):
        files.append(reward.reward_file(SCORE, plan.reward))
    if plan.rollout == "vllm-separate":
        files.append(LaunchFile(name="engine.sh", text=_engine_script(plan, about)))
    return Launch(
        framework=FRAMEWORK.name, version=VERSION, files=tuple(files), install=install, notes=notes
    )


def _config(plan: Plan) -> str:
    return f"{plan.method}.yaml"


def settings(plan: Plan) -> dict[str, object]:
    """Every setting that the plan decides, by the names of TRL's own parser."""
    return written(training_settings(plan.method), plan)


def _shares_a_node(plan: Plan) -> bool:
    return bool(plan.rollout == "vllm-separate" and plan.gpus <= plan.gpus_per_node)


def _script(
    plan: Plan, about: tuple[str, ...], program: str, flags: tuple[str, ...]
) -> str:
    asked, words = started(plan)
    about_data = required("DATASET", "the name or path of the data set to train on")
    lines = [header(about), about_data, *weights_lines(plan), *asked]
    if program:
        lines.append('if [ -e "$DATASET" ]; then DATASET="$(realpath -- "$DATASET")"; fi')
        words += [
            *(program, "--dataset", expand("", "DATASET")),
            *weights_option(plan, "--model"),
            *("--output", expand("", "OUTPUT_DIR"), *flags),
        ]
    else:
        words += [
            *("-m", f"trl.scripts.{script_of(plan).module}", "--config", _config(plan)),
            *weights_option(plan, "--model_name_or_path"),
            *("--dataset_name", expand("", "DATASET")),
            *("--output_dir", expand("", "OUTPUT_DIR")),
        ]
    if asks_reward_file(plan) and plan.reward == "remote":
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
    told = optimizer(plan)
    # vllm 0.31.0 is the newest that TRL supports; it needs torch 2.13.0, transformers < 5.18.
    engine = "vllm==0.31.0 torch==2.13.0 transformers==5.17.0"
    return chosen(
        (True, f"trl=={VERSION} accelerate==1.15.0 datasets==5.2.0"),
        (_engine_is_vllm(plan), engine),
        (not _engine_is_vllm(plan), f"torch=={plan.torch_version} transformers==5.23.0"),
        (plan.finetuning != "full", "peft==0.21.2"),
        (zero(plan), "deepspeed==0.19.8"),
        (told in BITSANDBYTES or plan.finetuning == "qlora", "bitsandbytes==0.50.2"),
        (told == "adamw_torch_8bit", "torchao==0.18.0"),
        *kernels(plan),
        *attention_packages(plan),
    )


def _validation_note(plan: Plan) -> tuple[bool, str]:
    if not plan.eval_steps or not script_of(plan).samples:
        off = "Validation is off (eval_strategy no); turned on, it runs at the same length."
        return True, off
    return (
        True,
        f"The plan's validation has {plan.validation_responses:,} responses, one for each row of "
        "the data set's test split. TRL generates and scores one micro-batch after the other.",
    )


def _notes(plan: Plan, program: str) -> tuple[str, ...]:
    samples = script_of(plan).samples
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
            asks_reward_file(plan),
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
            "TRL sets max_num_seqs to the "
            f"{sequences_at_once(plan).get('max_num_seqs')} sequences an engine gets.",
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
