"""The files of a made-up method, as somebody who adds one would write them: a teacher's scores."""

FACE = '''
"""Made Up: given responses, weighed by what a frozen teacher thinks of each token."""

from planner.methods.made_up.fields import MadeUpFields
from planner.methods.method import NOTHING_GENERATED, Method
from planner.rule import NoEffect, Rule


def _teacher(plan):
    from planner.model_setup import ModelSetup

    used = frozenset(("load", "teacher log-probs"))
    return (ModelSetup(role="teacher", config="reward", stored=plan.dtype, used_in=used),)


METHOD = Method(
    name="made-up",
    title="Made Up",
    label="Made Up · a teacher's scores",
    order=99,
    rollouts=NOTHING_GENERATED,
    most_responses=1,
    rewarded=False,
    extra_models=_teacher,
    fields=MadeUpFields,
    refused_elsewhere=("made_up_weight",),
    defaults={"kl": "none", "rollout": "none", "reference": "none", "responses_per_prompt": 1},
    rules=(
        Rule(
            "made_up_weight",
            lambda plan: plan.made_up_weight == 13,
            "A weight of 13 brings bad luck.",
            "Set made_up_weight to 12.",
        ),
    ),
    without_effect=(NoEffect(("entropy",), "its loss has none"),),
)
'''

FIELDS = '''
"""Made Up's own field."""

from typing import Annotated

from pydantic import Field

from planner.methods.method import OwnFields


class MadeUpFields(OwnFields):
    """How much the teacher counts."""

    made_up_weight: Annotated[int, Field(ge=1, le=100)] = Field(
        7, title="Teacher's weight", description="How much the teacher counts."
    )
'''

MEMORY = '''
"""Phases of a Made Up step: the teacher scores, the policy learns."""

from planner.phases import inference, update, upkeep

KEPT = "teacher log-probs"


def phases(scene):
    """Load, teacher log-probs, forward, backward, optimizer step, checkpoint."""
    kept = update.kept_for_update(scene, (KEPT,))
    teacher = scene.roles["teacher"]
    return (
        upkeep.load(scene),
        inference.log_probs(scene, KEPT, teacher, with_entropy=False, kept=kept),
        *update.policy_phases(scene, kept),
        upkeep.checkpoint(scene),
    )
'''

STEP = '''
"""The real step of Made Up."""

from planner.methods.made_up.fields import own
from planner.steps import forward, models, scoring
from planner.steps.run import end_of_step
from planner.steps.update import update_policy
from planner.steps.vocabulary import token_log_probs

KEPT = "teacher log-probs"


def step(run):
    """The teacher scores every response, then the policy is updated against it."""
    scoring.log_probs_of(run, "teacher", KEPT)
    update_policy(run, _loss)
    run.kept.clear()
    end_of_step(run)


def _loss(run, rows, places):
    return run.policy(lambda model: _on(run, model, rows, places))


def _on(run, model, rows, places):
    hidden, targets = forward.scored(model, rows, run.plan)
    taken = token_log_probs(
        run.stage,
        hidden,
        models.head(model),
        targets,
        how=run.plan.logits,
        logits_dtype=run.logits_dtype,
        softcap=models.softcap(model),
    ).log_probs
    further = forward.responses(taken, rows, run.plan) - run.kept[KEPT][places]
    return -own(run.plan).made_up_weight * further.mean()
'''

OWN = '''

own = MadeUpFields.of
'''

FILES = {"__init__": FACE, "fields": FIELDS + OWN, "memory": MEMORY, "step": STEP}
