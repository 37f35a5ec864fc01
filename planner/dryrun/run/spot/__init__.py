"""Coefficients of any decoder that transformers builds, measured on the spot. Imports torch.

The model is built whole on the meta device, so that its weights can be listed; then it is cut to
the first layers that hold every kind of layer, and observed
(:mod:`planner.dryrun.run.spot.polynomials`). Nothing is known of the family but what its modules
show.
"""

from planner.dryrun.run.spot.measurement import measure as measure
