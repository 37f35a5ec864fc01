"""Seconds of each phase of one step, cause by cause: what passes compute, move and wait for.

``phase`` adds up a phase's rows of the table of work; ``trainer`` has the passes of a model that
trains or scores (``passing`` says how one runs, ``layers`` which share of the peak its kernels
reach, ``head`` what the loss takes, ``terms`` one cause), ``updates`` the optimizer's, ``traffic``
their collectives and host copies. ``engine`` has a rollout's causes, ``rollout`` how many sequences
decode in how many steps, ``engine_step`` what one of these takes, ``weight_sync`` the weights' way
to the engine. ``step`` makes a step of the phases, ``done`` says what it gets done, ``source``
whose measurements its seconds rest on, ``error`` how far published runs were from such seconds, and
``doubt`` which of those runs speak for a plan.
"""
