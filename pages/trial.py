"""Trial: a few real steps on this machine, measured beside the prediction."""

from planner.ui import frame
from planner.ui.state import session
from planner.ui.trial import page as trial

plan = frame.current_plan()
trial.page(plan, session.unit())
