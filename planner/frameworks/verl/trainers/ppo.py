"""The estimator ``gae``, with a critic of its own."""

from planner.frameworks.verl.estimator import Estimator
from planner.rule import Rule
from planner.values.framework import Trainer

TRAINER = Trainer(
    export=Estimator(name=lambda plan: "gae", fields={"gae": {}}, critic=True),
    rules=(
        Rule(
            "dtype",
            lambda plan: plan.dtype == "fp32",
            "verl's critic runs FlashAttention-2 whatever attention says, and that computes in "
            "half precision only.",
            "Set dtype to bf16, or framework to plain.",
        ),
    ),
)
