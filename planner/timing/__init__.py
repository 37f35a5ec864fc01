"""Seconds of each phase of one step, cause by cause: what passes compute, move and wait for.

``phase`` adds up a phase's rows of the table of work; ``trainer`` has the passes of a model that
trains or scores (``passing`` says how one runs, ``layers`` which share of the peak its kernels
reach, ``head`` what the loss takes, ``terms`` one cause), ``updates`` the optimizer's, ``traffic``
their collectives and host copies, ``engine`` rollouts and the weights they are sent, ``error`` how
far published runs were from it.
"""
