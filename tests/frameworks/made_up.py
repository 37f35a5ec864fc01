"""The two files of a made-up framework, as somebody who adds one would write them."""

FOLDER = '''
"""Made Up 7: in the step of this project, a bucket of 3 GiB and an fp32 reference."""

from planner.frameworks.framework import Framework
from planner.frameworks.plain import FRAMEWORK as PLAIN
from planner.rule import Rule

FRAMEWORK = Framework(
    name="made_up",
    label="Made Up",
    order=7,
    versions=("7",),
    loss={"7": PLAIN.loss_code("1")},
    defaults=lambda values: {"micro_batch_size": 2},
    rules=(
        Rule(
            "optimizer",
            lambda plan: plan.optimizer == "sgd",
            "Made Up has no SGD.",
            "Set optimizer to adamw-fused.",
        ),
    ),
    reference_loaded_like_policy=True,
    sync_bucket_bytes=3 * 2**30,
)
'''

EXPORTER = '''
"""Made Up 7: one script."""

from planner.launch.launch import Launch, LaunchFile
from planner.launch.obstacles import Obstacles


def obstacles(plan):
    found = Obstacles(plan)
    found.only("liger", False, why="Made Up has kernels of its own.")
    return tuple(found.found)


def write(plan, link):
    text = f"made-up train --model {plan.model} --micro-batch {plan.micro_batch_size}\\n"
    files = (LaunchFile(name="launch.sh", text=text),)
    install = "pip install made-up==7"
    return Launch(framework="made_up", version="7", files=files, install=install, notes=())
'''

TRAINER = '''
"""Made Up's trainer of GRPO."""

from planner.frameworks.trainer import Trainer

TRAINER = Trainer(export=True)
'''

