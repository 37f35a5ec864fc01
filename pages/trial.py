"""Trial: a few real steps on this machine, measured beside the prediction."""

from planner.ui import frame
from planner.ui.trial import page

plan = frame.current_plan()
page.page(plan)
