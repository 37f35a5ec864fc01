"""Runs in a process of its own: verl's advantages and loss, one JSON answer a line.

What verl's package imports and these functions never call is replaced by empty modules, as for
its configuration.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from typing import Any

from verl_worker import Empty, Finder


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.meta_path.insert(0, Finder())
    real_version = importlib.metadata.version
    importlib.metadata.version = lambda name: (  # type: ignore[assignment]
        Empty.__version__ if name == "vllm" else real_version(name)
    )

    import numpy as np
    import torch
    from omegaconf import DictConfig
    from verl.trainer.config import AlgoConfig
    from verl.trainer.ppo import core_algos

    def advantages(request: dict[str, Any]) -> Any:
        """Of an estimator that a configuration names, with verl's own KL and its defaults."""
        old, reference = (torch.tensor(request[name]) for name in ("old", "reference"))
        mask = torch.ones_like(old)
        rewards = torch.zeros_like(old)
        rewards[:, -1] = torch.tensor(request["rewards"])
        rewards -= request["beta"] * core_algos.kl_penalty(old, reference, "kl")
        index = np.arange(len(old)) // request["group"]
        estimate = core_algos.get_adv_estimator_fn(request["estimator"])
        found, _ = estimate(
            token_level_rewards=rewards, response_mask=mask, index=index, config=AlgoConfig()
        )
        return found.tolist()

    def loss(request: dict[str, Any]) -> Any:
        """The clipped loss that verl's actor has unless told otherwise."""
        old, new, found = (torch.tensor(request[name]) for name in ("old", "new", "advantages"))
        clips = {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.2}
        config = DictConfig({**clips, "clip_ratio_c": 3.0, "global_batch_info": {}})
        taken, _ = core_algos.compute_policy_loss_vanilla(
            old_log_prob=old,
            log_prob=new,
            advantages=found,
            response_mask=torch.ones_like(old),
            config=config,
        )
        return float(taken)

    replies.write("{}\n")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            found = {"advantages": advantages, "loss": loss}[request["what"]](request)
            replies.write(json.dumps({"found": found}) + "\n")
        except Exception as error:
            replies.write(json.dumps({"error": f"{type(error).__name__}: {error}"}) + "\n")


if __name__ == "__main__":
    main()
