"""Plan: does this run fit, what sets the peak, what would change it.

The answer itself stands above the page (:mod:`planner.ui.plan.answer`).
"""

from planner.ui import compute, frame, verdict
from planner.ui.dry_run import section
from planner.ui.plan import advice, answer, explore, numbers, phases, seconds, share
from planner.ui.state import session
from planner.ui.trial import calibration

plan = frame.answered_plan()
footprint, price = compute.shown(plan), compute.price(plan)

drawn, explained = answer.places()
with drawn:
    phase = phases.choice(footprint)
    phases.chart(footprint)
with explained:
    verdict.what_sets(footprint, phase)
    verdict.rests_on(footprint)
    # What is left of a plan is nothing to advise on.
    whole = not footprint.verdict.incomplete
    finish = advice.show(footprint, phase.name if phases.by_hand() else "") if whole else None
    seconds.rests_on(footprint, price)
    verdict.cached_reference(footprint, price)
    verdict.price(footprint, price)
verdict.cautions(footprint)
verdict.assumes(footprint)
calibration.offer(compute.footprint(plan))
numbers.numbers(footprint, price, phase)
if whole:
    explore.show(footprint)
section.section(plan, session.unit())
share.share(compute.footprint(plan))
if finish is not None:
    finish()
