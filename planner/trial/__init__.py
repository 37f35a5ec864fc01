"""The measured trial: the plan's own steps, really run for a few iterations. See docs/trial.md.

``ask/`` asks for a trial and reads its answer, ``run/`` is the worker's own process, ``cluster/``
has a Ray cluster run one, ``history/`` stores results in SQL, ``evidence/`` says what results prove
of predictions. Under ``run/`` a module may import torch, elsewhere none does.
"""
