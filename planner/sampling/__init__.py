"""Density-aware sampling: what it needs (closed form) and, under ``run/``, the real pipeline.

Prompts are embedded by a model, each one's nearest neighbours are found, and how near they are
decides how often it is drawn. Its own plan, link and answer: nothing here is a field of
:class:`planner.plan.Plan`. No torch, scikit-learn or FAISS outside ``run/``.
"""

from planner.sampling.plan import FIELDS, SamplingPlan, try_sampling_plan

__all__ = ["FIELDS", "SamplingPlan", "try_sampling_plan"]
