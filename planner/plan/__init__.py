"""A plan: what a person chooses, its rules and defaults, and the link that carries it. No torch."""

from planner.plan.plan import FIELDS, Plan, choices, remedy, try_plan

__all__ = ["FIELDS", "Plan", "choices", "remedy", "try_plan"]
