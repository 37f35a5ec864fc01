"""verl's own engine on tensors without data: imports torch and verl, in the dry run's process."""

import logging
import warnings

# Each engine that is not installed, and the card that is not there, is warned of.
_level = logging.root.manager.disable
logging.disable(logging.WARNING)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import verl.workers.engine.fsdp.transformer_impl  # noqa: F401
logging.disable(_level)
