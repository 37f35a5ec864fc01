"""Document 000's two methods as plans at any length, on the cards that it has in mind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from planner.examples import doc_000
from planner.examples.dry_runs import Case
from planner.examples.planned import planned
from planner.plan import Plan
from planner.plan.chosen import chosen_fields, differences, followed
from planner.plan.presets import presets

REAL = "intuitor-1.5b@1"
"""Intuitor as its published trainer runs it, on eight cards."""
PPO = "doc-000-ppo@1"
"""Whose method takes the place of Intuitor's."""
RESPONSES = (1_000, 2_000, 3_000, 4_000, 6_000, 8_000, 12_000, 16_000)
"""Tokens of a response; the document's own is 4K, after 2K of prompt."""


def at(response: int) -> Mapping[str, int]:
    """The fields of a length: a third of the whole is prompt, as the document splits it."""
    return {
        "prompt_tokens": response // 2,
        "response_tokens": response,
        "validation_response_tokens": response,
    }


def intuitor(response: int) -> Plan:
    """Intuitor at this length."""
    return presets()[REAL].plan.changed(**at(response))


def ppo(response: int) -> Plan:
    """The same with PPO in its place; the rest as PPO's defaults have it."""
    return _ppo().changed(**at(response))


@cache
def _ppo() -> Plan:
    values = presets()[REAL].plan.model_dump()
    method = presets()[PPO].plan.method
    changes = {"method": method, "responses_per_prompt": 8}
    return Plan(**followed(values, chosen_fields(values), changes))


@cache
def sizes(response: int) -> Mapping[str, float]:
    """Bytes by curve: claimed of the whole run, and the trainer's own peak planned of one card."""
    tokens = response * 3 // 2
    return {
        "Intuitor, claimed": doc_000.intuitor(tokens).value,
        "PPO, claimed": doc_000.ppo(tokens).value,
        "Intuitor, planned": planned(intuitor(response)).trainer_bytes,
        "PPO, planned": planned(ppo(response)).trainer_bytes,
    }


def case(label: str, plan: Plan) -> Case:
    """A plan made here as a preset and what differs from it."""
    base = presets()[REAL].plan
    changes: dict[str, Any] = {
        one.field: one.after for one in differences(dict(base), dict(plan))
    }
    return Case(label=label, preset=REAL, changes=changes)


def group(prompts: int, responses: int, response: int) -> Case:
    """A setting of the document's advice: a batch of groups on eight cards, 2K of prompt."""
    plan = presets()[REAL].plan.changed(
        prompts_per_step=prompts,
        prompts_per_update=prompts,
        responses_per_prompt=responses,
        **{**at(response), "prompt_tokens": 2_048},
    )
    return case(f"{prompts} prompts × {responses} responses of {response:,} tokens", plan)
