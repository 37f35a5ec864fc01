"""Trial: a few real steps on this machine, measured beside the prediction."""

from planner.ui import frame, session, trial

plan = frame.current_plan()
trial.page(plan, session.unit())
