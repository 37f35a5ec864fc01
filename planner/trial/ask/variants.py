"""What of a plan a trial executes here, and which shallower plans stand for it. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner import catalog
from planner.dryrun.ask.request import configs_of
from planner.dryrun.ask.stand_in import stand_in
from planner.dryrun.logs.kinds import depth_of, shallow
from planner.jobs.strict import shown
from planner.plan import Plan, try_plan
from planner.plan.fields import EIGHT_BIT
from planner.plan.frameworks import code_of, framework_named, ours, own_step
from planner.trial.ask.endings import CannotRun
from planner.values.sharding import sharding_of


def executed(plan: Plan, refused: str = "") -> tuple[Plan, tuple[str, ...]]:
    """The plan whose step a trial runs, and what it does otherwise, in words.

    The returned plan says whose (:func:`planner.plan.frameworks.code_of`): a framework's own code
    runs it where its plan is not ``refused``; otherwise our step does.

    Raises:
        CannotRun: naming the field and the fix, for state that the step's code does not hold.
    """
    if sharding_of(plan).zero > 0:
        raise CannotRun(
            f"sharding: {plan.sharding} is DeepSpeed's, which no trial runs; set sharding to "
            "fsdp2, whose shards hold as much."
        )
    if plan.optimizer in EIGHT_BIT:
        raise CannotRun(
            f"optimizer: {plan.optimizer} needs a library that is not part of the step; set "
            "optimizer to adamw-fused."
        )
    standing = stand_in(plan, refused or _no_trial(plan))
    if plan.offload in ("optimizer", "all") and ours(standing.code):
        raise CannotRun(
            f"offload: no trial keeps {plan.offload} in host RAM throughout; set offload to "
            f"{plan.offload}-between-phases."
        )
    if plan.finetuning == "qlora":
        raise CannotRun("finetuning: no trial runs qlora; set finetuning to lora.")
    # Of DDP there is another note below; stand-ins for kernels are in the dry run alone.
    notes = [note for note in standing.notes if "DDP" not in note and "stand-ins" not in note]
    if sharding_of(plan).ddp and ours(standing.code):
        notes.append("One replica runs, without DDP's gradient buckets and its all-reduce.")
    if plan.rollout.startswith("vllm"):
        notes.append("The steps sample no responses: the plan's engine generates them.")
    running = standing.plan
    if code_of(running.framework) != standing.code:
        running = running.model_copy(update={"framework": standing.code})
    return _valid(plan, running), tuple(notes)


def _no_trial(plan: Plan) -> str:
    """Why a framework's own code runs in no trial of a plan; empty where it does."""
    told = getattr(own_step(plan.framework), "no_trial", None)
    if told is None:
        return f"Trials do not run {framework_named(plan.framework).label}'s own code."
    return str(told(plan))


def _valid(plan: Plan, running: Plan) -> Plan:
    """The executed plan as a plan of its own, which a link can carry."""
    values = running.model_dump()
    if running.framework != plan.framework:
        values["framework_version"] = framework_named(running.framework).versions[0]
    found, problems = try_plan(values)
    if found is None:
        raise CannotRun(problems[0].sentence)
    return found


def layers_of(plan: Plan) -> int:
    """Layers of the plan's policy."""
    return depth_of(configs_of(plan)["policy"])


def with_layers(plan: Plan, layers: int) -> Plan:
    """The plan with the first layers of its model only, all widths kept.

    Raises:
        CannotRun: for a model that no link can carry in part, or with a critic of its own kind.
    """
    for field in ("critic_model", "reward_model"):
        if getattr(plan, field) not in ("", plan.model):
            raise CannotRun(
                f"{field}: a plan with a {field} of its own cannot be cut in depth; leave it empty."
            )
    config = shallow(configs_of(plan)["policy"], layers)
    try:
        return plan.changed(config=catalog.encode_config(config), critic_model="", reward_model="")
    except ValueError as error:
        reason = shown(" ".join(str(error).split()), 200)
        raise CannotRun(f"model: it cannot be cut to {layers} layers: {reason}") from None


def smaller(plan: Plan) -> Iterator[tuple[Plan, str]]:
    """Plans that need less and less memory for the same model and method, and the change in words.

    Each keeps what those before it have changed.
    """
    changes: dict[str, Any] = {}
    words: list[str] = []

    def tried(word: str, **more: Any) -> Iterator[tuple[Plan, str]]:
        found, _ = try_plan({**plan.model_dump(), **changes, **more})
        if found is not None and found != plan:
            changes.update(more)
            words[:] = [*(w for w in words if w.split()[0] != word.split()[0]), word]
            yield found, ", ".join(words)

    if plan.gradient_checkpointing == "none":
        yield from tried("gradient_checkpointing full", gradient_checkpointing="full")
    size = plan.micro_batch_size
    while size > 1:
        size //= 2
        more = {"micro_batch_size": size}
        if plan.logprob_micro_batch_size > size:
            more["logprob_micro_batch_size"] = size
        yield from tried(f"micro_batch_size {size}", **more)
    for share in (2, 4, 8, 16):
        prompt = max(1, plan.prompt_tokens // share)
        response = max(1, plan.response_tokens // share)
        yield from tried(
            f"lengths {prompt} + {response} tokens", prompt_tokens=prompt, response_tokens=response
        )
