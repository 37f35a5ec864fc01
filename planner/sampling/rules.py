"""What cannot be in a sampling plan: each with the field and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.catalog import gpu, model
from planner.problem import Problem
from planner.rule import Rule
from planner.sampling.derived import FEWEST_PER_LIST, lists_of, probes_of, training_of
from planner.sampling.model import embedder_of

if TYPE_CHECKING:
    from planner.sampling.plan import SamplingPlan


def _ivf(plan: SamplingPlan) -> bool:
    return bool(plan.index == "faiss-ivf")


RULES: tuple[Rule, ...] = (
    Rule(
        "dimensions",
        lambda p: p.dimensions == 0 and p.model == "",
        "Without a model the length of an embedding is unknown.",
        "Set dimensions, or choose a model.",
    ),
    Rule(
        "neighbours",
        lambda p: p.neighbours >= p.prompts,
        "A prompt is not its own neighbour, so it has fewer neighbours than there are prompts.",
        "Lower neighbours.",
    ),
    Rule(
        "lists",
        lambda p: p.lists != 0 and not _ivf(p),
        "Only an IVF index has lists.",
        "Set lists to 0, or index to faiss-ivf.",
    ),
    Rule(
        "probes",
        lambda p: p.probes != 0 and not _ivf(p),
        "Only an IVF index has probes.",
        "Set probes to 0, or index to faiss-ivf.",
    ),
    Rule(
        "training_prompts",
        lambda p: p.training_prompts != 0 and not _ivf(p),
        "Only an IVF index is trained.",
        "Set training_prompts to 0, or index to faiss-ivf.",
    ),
    Rule(
        "probes",
        lambda p: _ivf(p) and probes_of(p) > lists_of(p),
        "probes exceeds the index's lists.",
        "Lower probes, or set it to 0.",
    ),
    Rule(
        "training_prompts",
        lambda p: _ivf(p) and p.training_prompts > p.prompts,
        "training_prompts exceeds prompts.",
        "Lower training_prompts, or set it to 0.",
    ),
    Rule(
        "lists",
        lambda p: _ivf(p) and training_of(p) < FEWEST_PER_LIST * lists_of(p),
        f"An IVF index needs {FEWEST_PER_LIST} training prompts for each list.",
        "Lower lists, raise training_prompts, or choose faiss-flat.",
    ),
    Rule(
        "assembly",
        lambda p: (
            p.assembly == "concatenate"
            and (p.mode, p.index, p.dtype) != ("online", "exact", "fp32")
        ),
        "Document 003's code concatenates fp32 embeddings online and searches them by brute force.",
        "Set assembly to in-place, or mode to online, index to exact and dtype to fp32.",
    ),
    Rule(
        "model_dtype",
        lambda p: p.device == "cpu" and p.model_dtype == "fp16",
        "The pipeline runs no fp16 model on a CPU.",
        "Set model_dtype to fp32 or bf16.",
    ),
)


def problems_of(plan: SamplingPlan) -> tuple[Problem, ...]:
    """Every rule that a plan breaks; empty when it is possible."""
    found: list[Problem] = []
    for rule in RULES:
        if rule.broken(plan):
            found.append(Problem(rule.field, rule.message, rule.fix))
    if plan.device != "cpu":
        try:
            gpu(plan.device)
        except ValueError as error:
            found.append(Problem("device", str(error), "Choose cpu or a card of the catalog."))
    if plan.model:
        try:
            chosen = model(plan.model)
        except ValueError as error:
            fix = "Choose a model of the catalog, or leave model empty and set dimensions."
            found.append(Problem("model", str(error), fix))
        else:
            if chosen.unsupported_reason:
                sentence = f"{plan.model} is not supported: {chosen.unsupported_reason}."
                found.append(Problem("model", sentence, "Choose another model, or leave model "
                "empty and set dimensions."))
            elif not found:
                found.extend(_uncovered(plan))
    return tuple(found)


def _uncovered(plan: SamplingPlan) -> tuple[Problem, ...]:
    """What the formulas of the model's forward refuse."""
    try:
        embedder = embedder_of(plan)
        if embedder is not None:
            embedder.forward()
    except ValueError as error:
        return (Problem("model_dtype", f"{error}.", "Or choose another model."),)
    return ()
