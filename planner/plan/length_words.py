"""A plan's lengths in words, and the shape that is offered in place of none."""

from __future__ import annotations

from planner.lengths.shape import Histogram, Uniform
from planner.lengths.text import from_text, to_text
from planner.lengths.typical import typical
from planner.plan.fields import PlanFields as Plan
from planner.plan.lengths import lengths_of, says_prompts


def words(plan: Plan) -> str:
    """What a plan's time rests on, to stand beside it: ``every response at the …-token limit``."""
    cap = f"{plan.response_tokens:,}"
    if not plan.length_distribution:
        return f"every response at the {cap}-token limit"
    lengths, shape = lengths_of(plan), from_text(plan.length_distribution)
    kind = "lognormal"
    if isinstance(shape, Histogram):
        kind = f"counted, at most {shape.longest:,}"
    elif isinstance(shape, Uniform):
        kind = f"as often from {shape.low:,} to {shape.longest:,}"
    share = lengths.reaching(plan.response_tokens)
    cut = f", {share:.0%} cut at {cap}" if share >= 0.005 else ""
    return f"responses of {lengths.mean:,.0f} tokens on average ({kind}{cut})"


def prompts(plan: Plan) -> str:
    """How long a plan's prompts are, beside its responses."""
    if says_prompts(plan):
        return f"prompts of {plan.mean_prompt_tokens:,} tokens on average"
    return f"every prompt at the {plan.prompt_tokens:,}-token limit"


def named(text: str) -> str:
    """A distribution's text as a list of changes says it."""
    if not text:
        return "all at the limit"
    shape = from_text(text)
    if isinstance(shape, Histogram):
        return f"counted, at most {shape.longest:,} tokens"
    if isinstance(shape, Uniform):
        return f"from {shape.low:,} to {shape.longest:,} tokens"
    return f"lognormal of {shape.mean:,} ± {shape.spread:,} tokens"


def offered(plan: Plan) -> str:
    """The text of the offered shape; empty where a plan has lengths, or none are sampled."""
    sampled = plan.rollout not in ("none", "in-graph") and plan.batch_shape != "full"
    if plan.length_distribution or not sampled:
        return ""
    return to_text(typical(plan.response_tokens))
