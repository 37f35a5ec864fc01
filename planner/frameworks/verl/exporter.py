"""verl 0.9.1, GRPO and PPO: a bash script of hydra overrides for ``verl.trainer.main_ppo``.

An engine on GPUs of its own is launched by ``verl.experimental.one_step_off_policy.main_ppo``.
A test composes every export with verl's own configuration and runs verl's own validation on it.
"""

from __future__ import annotations

import shlex

from planner.frameworks.verl import FRAMEWORK
from planner.frameworks.verl.limits import obstacles as obstacles
from planner.frameworks.verl.overrides import overrides
from planner.frameworks.verl.settings.algorithm import ENTROPY_COEFFICIENT, KL_COEFFICIENT
from planner.frameworks.verl.settings.roles import apart
from planner.frameworks.verl.settings.rollout import nodes
from planner.launch import reward
from planner.launch.launch import Launch, LaunchFile
from planner.launch.script import (
    Expanded,
    chosen,
    command,
    expand,
    header,
    plain_characters,
    required,
)
from planner.launch.words import (
    FLASH_3,
    entropy_note,
    full_rows_note,
    kernels,
    other_framework_note,
    own_settings,
    variation_note,
)
from planner.plan import Plan
from planner.units import read_count

VERSION = FRAMEWORK.versions[0]
TORCH = "2.11.0"
"""What the wheel's vllm extra pins, with vllm 0.24.0 and transformers 5.9.0."""

SCORE = '''

def compute_score(data_source, solution_str, ground_truth, extra_info=None, **unused):
    """verl's reward function: one number; `ground_truth` is the row's reward_model field."""
    return score(solution_str, ground_truth)
'''
"""What verl calls, asking ``score``."""

PROGRAMS = {
    False: "verl.trainer.main_ppo",
    True: "verl.experimental.one_step_off_policy.main_ppo",
}
"""What trains, by whether the engine has GPUs of its own."""
def write(plan: Plan, link: str) -> Launch:
    """``launch.sh`` with the overrides, and ``reward.py``."""
    notes = _notes(plan)
    install = _install(plan)
    return Launch(
        framework=FRAMEWORK.name,
        version=VERSION,
        files=(
            LaunchFile(name="launch.sh", text=_script(plan, link, install, notes)),
            reward.reward_file(SCORE, plan.reward),
        ),
        install=install,
        notes=notes,
    )


def _words(plan: Plan) -> list[str | Expanded]:
    return [
        *("python3", "-m", PROGRAMS[apart(plan)]),
        *(f"{key}={value}" for key, value in overrides(plan).items()),
        expand("data.train_files='", "TRAIN_FILES", "'"),
        expand("data.val_files='", "VAL_FILES", "'"),
        expand("reward.custom_reward_function.path='", "here", f"/{reward.NAME}'"),
        f"reward.custom_reward_function.name={reward.FUNCTION}",
        expand("trainer.default_local_dir='", "OUTPUT_DIR", "'"),
    ]


_CLUSTER = """\
# Run this on every node: NODE_RANK 0 starts ray and the training, the others join.
export RAY_ADDRESS="$MASTER_ADDR:6379"
if [ "$NODE_RANK" != 0 ]; then
  exec ray start --address="$RAY_ADDRESS" --num-gpus={per_node} --block
fi
ray start --head --port=6379 --num-gpus={per_node}
# Training asks ray for all GPUs at once, so wait until every node has joined.
python3 -c {wait}
"""

_WAIT = (
    "import ray, time; ray.init(address='auto'); "
    "[time.sleep(2) for _ in iter(lambda: ray.cluster_resources().get('GPU', 0) >= {gpus}, True)]"
)


def _script(plan: Plan, link: str, install: str, notes: tuple[str, ...]) -> str:
    count = nodes(plan, plan.gpus)
    checks = [
        required("TRAIN_FILES", "the parquet file to train on, in the format of verl"),
        required("VAL_FILES", "the parquet file to validate on"),
    ]
    if count > 1:
        checks += [
            required("NODE_RANK", f"the number of this node, 0 to {count - 1}"),
            required("MASTER_ADDR", "the address of node 0"),
        ]
    if plan.reward == "remote":
        checks += [
            required("REWARD_URL", "the address of the reward service"),
            "export REWARD_URL",
        ]
    parts = [
        header(
            (
                f"verl {VERSION}: {plan.method} of {plan.model} on {read_count(plan.gpus, 'GPU')}.",
                link,
                f"Install: {install}",
                *notes,
            )
        ),
        *checks,
        'here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"',
        'OUTPUT_DIR="${OUTPUT_DIR:-$PWD/output}"',
        plain_characters("TRAIN_FILES", "VAL_FILES", "OUTPUT_DIR", "here"),
    ]
    if count > 1:
        parts.append(
            _CLUSTER.format(
                per_node=plan.gpus_per_node, wait=shlex.quote(_WAIT.format(gpus=plan.gpus))
            )
        )
    parts.append(command(_words(plan)))
    return "\n".join(parts) + "\n"


def _install(plan: Plan) -> str:
    words = chosen(
        (not apart(plan), f"pip install 'verl[vllm,flash-attn-cu130torch211]=={VERSION}'"),
        # Its checkpoint engine sends weights through buffers of cupy's.
        (apart(plan), f"pip install 'verl[vllm,flash-attn-cu130torch211,cupy-cu130]=={VERSION}'"),
        (plan.attention == "flash_attention_3", FLASH_3),
        (plan.optimizer == "adamw-8bit", "torchao==0.16.0"),
        *kernels(plan),
    )
    return " ".join(words)


def _notes(plan: Plan) -> tuple[str, ...]:
    fragmented = "." if plan.expandable_segments else ": fragmentation is at most what was planned."
    return chosen(
        (
            True,
            f"Checked against verl {VERSION}. verl's wheel pins torch {TORCH}, vllm 0.24.0 and "
            f"transformers 5.9.0; the plan was estimated for torch {plan.torch_version}.",
        ),
        (True, own_settings(FRAMEWORK)),
        (
            apart(plan),
            "The engine generates with weights one step old; verl's one_step_off_policy is "
            "experimental.",
        ),
        (
            not apart(plan),
            f"verl turns expandable segments on after the first weight sync{fragmented}",
        ),
        (
            True,
            "A data set that is too small for the planned steps ends the run early: verl stops "
            "after 30 epochs.",
        ),
        (
            plan.save_steps == 0,
            "The plan has no checkpoints, and verl writes none unless trainer.save_freq says so.",
        ),
        (
            plan.eval_steps > 0,
            f"The plan's validation has {plan.validation_responses:,} responses: the rows of "
            "VAL_FILES, times val_kwargs.n (1).",
        ),
        (
            plan.eval_steps == 0,
            "The plan has no validation; verl validates once, before the first step "
            "(trainer.val_before_train).",
        ),
        (plan.kl != "none", f"The KL coefficient is verl's default, {KL_COEFFICIENT}."),
        entropy_note(plan, ENTROPY_COEFFICIENT),
        variation_note(plan),
        full_rows_note(plan),
        other_framework_note(plan, FRAMEWORK),
    )
