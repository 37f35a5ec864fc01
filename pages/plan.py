"""Plan: does this run fit, what decides it, what would change it."""

from planner.ui import compute, frame, verdict
from planner.ui.dry_run import section
from planner.ui.plan import advice, numbers, phases, seconds, share
from planner.ui.state import session
from planner.ui.trial import calibration

plan = frame.current_plan()
footprint = compute.footprint(plan)

verdict.sentence(footprint)
price = compute.price(plan)
verdict.figures(footprint, price)
seconds.rests_on(footprint, price)
verdict.what_decides(footprint)
verdict.cached_reference(footprint, price)
verdict.cautions(footprint)
phases.chart(footprint)
calibration.offer(footprint)
advice.advice(compute.suggestions(plan), footprint.verdict.word == "fits")
section.section(plan, session.unit())
numbers.numbers(footprint, price)
share.share(footprint)
