"""Runs exported programs on a CPU as they are, and says what was allocated and computed.

First it writes tiny models and data into the folder that it is given.

A request on stdin, one answer on stdout, a JSON line each. Bytes are the allocator's own events
(the profiler's), above every storage that is alive when the watched step begins: nothing of ours
counts them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import io
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from launch.tiny_models import write
from live_bytes import profiled_peak_bytes


def program(path: str) -> Any:
    """The program as a module, whatever its name."""
    spec = importlib.util.spec_from_file_location(f"program_{abs(hash(path))}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def alive_bytes() -> int:
    """Every storage that a tensor of this process has."""
    gc.collect()
    storages = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for found in gc.get_objects():
            if isinstance(found, torch.Tensor) and found.device.type == "cpu":
                # A gradient that nobody asked for has no object of its own.
                for each in (found, found.grad) if found.is_leaf else (found,):
                    if each is not None:
                        storage = each.untyped_storage()
                        storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


class Watch:
    """Peaks of a program's n-th step and of the next step's losses, and what it computes.

    ``which`` is the second unless told: the first has no optimizer state yet.
    """

    def __init__(
        self, module: Any, step: str, loss: str, compared: Callable[..., Any] | None, which: int
    ) -> None:
        self.which = which
        self.step, self.loss = getattr(module, step), getattr(module, loss)
        self.compared = compared
        self.calls = 0
        self.peaks: dict[str, int] = {}
        self.ours: dict[str, float] = {}
        setattr(module, step, self.stepped)
        setattr(module, loss, self.lost)

    def stepped(self, *given: Any) -> Any:
        self.calls += 1
        if self.calls != self.which:
            return self.step(*given)
        return self._watched("step", lambda: self.step(*given))

    def lost(self, *given: Any) -> Any:
        if self.calls == 1 and self.compared is not None and not self.ours:
            self.ours = self.compared(self.loss, *given)
        if self.calls != self.which + 1:
            return self.loss(*given)
        return self._watched("loss", lambda: self.loss(*given))

    def _watched(self, name: str, run: Callable[[], Any]) -> Any:
        found: list[Any] = []
        before = alive_bytes() + bucket_bytes()
        peak = before + profiled_peak_bytes(lambda: found.append(run()))
        self.peaks[name] = max(peak, self.peaks.get(name, 0))
        return found[0]


def grade_compared(loss: Callable[..., Any], *given: Any) -> dict[str, float]:
    """The program's loss and gradients less those of the planner's own step, same draws."""
    from planner.methods.grade.fields import GradeFields
    from planner.methods.grade.step.loss import grade_loss
    from planner.steps.models import ScoreModel
    from planner.steps.stage import Stage

    policy, reference, judge, ids, mask, options = given
    score = ScoreModel(judge.model, judge.config.hidden_size, bias=False)
    score.score = judge.score
    names = ("estimator", "top_k", "dense_scatter", "kl", "reference_cache", "reward_input")
    names += ("step_checkpointing",)
    fields = GradeFields(**{f"grade_{name}": getattr(options, name) for name in names})
    planned = sys.modules[loss.__module__].PLAN
    tokens = planned["response_tokens"]
    more = {"autocast": True} if planned["autocast_adapters"] else {}

    def ours() -> Any:
        return grade_loss(Stage(), policy, reference, score, ids, mask, tokens, fields, **more)

    return _apart(policy, lambda: loss(*given)[0], ours)


def scored_by_the_step(planned: Any, policy: Any, rows: Any, method: str, **more: Any) -> list[Any]:
    """Log-probs of responses, and their entropies if asked, as the planner's step has them."""
    from planner.steps import forward, models
    from planner.steps.batch import Rows
    from planner.steps.stage import DTYPES, Stage
    from planner.steps.vocabulary import token_log_probs

    plan: Any = SimpleNamespace(
        method=method, framework="plain", framework_version="1", logits=planned["logits"],
        response_tokens=planned["response_tokens"],
    )  # fmt: skip
    batch = Rows(rows.ids, rows.mask, None, len(rows.ids))
    hidden, targets = forward.scored(policy, batch, plan)
    taken = token_log_probs(
        Stage(),
        hidden,
        models.head(policy),
        targets,
        how=plan.logits,
        logits_dtype=DTYPES[planned["logits_dtype"]],
        **more,
    )
    both = taken.log_probs, taken.entropy
    return [None if one is None else forward.responses(one, batch, plan) for one in both]


def dpo_compared(loss: Callable[..., Any], *given: Any) -> dict[str, float]:
    """The same of DPO, where no row is padded: the planner's step counts every position."""
    from planner.steps.vocabulary import preference_loss

    run, _, rows, kept = given
    if kept.dim() > 1 or not rows.learned.all():
        return {}
    planned = sys.modules[loss.__module__].PLAN

    def ours() -> Any:
        policy = scored_by_the_step(planned, run.policy, rows, "dpo")[0].sum(-1)
        chosen_first = [each.view(-1, 2).t().flatten() for each in (policy, kept)]
        return preference_loss(*chosen_first, beta=run.given.beta)

    return _apart(run.policy, lambda: loss(*given), ours)


def sft_compared(loss: Callable[..., Any], *given: Any) -> dict[str, float]:
    """The same of SFT, where every token is learned: the planner's step counts every one."""
    from planner.methods.sft.step import _on
    from planner.steps.batch import Rows

    policy, rows = given
    ids, mask = rows["input_ids"], rows.get("attention_mask")
    if mask is not None and not mask.all():
        return {}
    run = SimpleNamespace(plan=SimpleNamespace(logits="full"))
    batch = Rows(ids, mask, None, len(ids))
    return _apart(policy, lambda: loss(*given), lambda: _on(run, policy, batch))  # type: ignore[arg-type]


def online_compared(loss: Callable[..., Any], *given: Any) -> dict[str, float]:
    """The same of methods that learn from their own responses, where none ended early."""
    from planner.steps.objectives import policy_loss

    planned, run, rows, old, advantages, theirs = given
    if not rows.learned.all():
        return {}
    # A first step's policy is its old one and its reference: both are moved, beyond the clip too,
    # and where a ratio is large its advantage is positive, where it is small negative.
    old = old + torch.linspace(-0.5, 0.5, old.shape[1])
    advantages = torch.linspace(1, -1, old.shape[1]).expand(old.shape)
    theirs = None if theirs is None else theirs + 0.3
    assert (run.given.beta, run.given.entropy_weight) == (0.001, 0.01)  # the step's own

    def ours() -> Any:
        more = {name: planned[name] for name in ("entropy", "temperature")}
        found, spread = scored_by_the_step(planned, run.policy, rows, "grpo", **more)
        return policy_loss(
            found, old, advantages, theirs if planned["kl"] == "loss" else None, spread
        )

    return _apart(run.policy, lambda: loss(planned, run, rows, old, advantages, theirs), ours)


def _apart(policy: Any, one: Callable[[], Any], other: Callable[[], Any]) -> dict[str, float]:
    drawn = torch.get_rng_state()
    found = []
    for run in (one, other):
        torch.set_rng_state(drawn)
        policy.zero_grad(set_to_none=True)
        value = run()
        value.backward()
        gradients = {n: w.grad.float() for n, w in policy.named_parameters() if w.grad is not None}
        found.append((float(value.detach()), gradients))
    policy.zero_grad(set_to_none=True)
    torch.set_rng_state(drawn)
    (first, mine), (second, theirs) = found
    assert mine.keys() == theirs.keys() and mine
    return {
        "loss": first - second,
        "gradients": max(float((mine[n] - theirs[n]).abs().max()) for n in mine),
        "largest": max(float(each.abs().max()) for each in theirs.values()),
    }


COMPARED = {"grade_loss": grade_compared, "dpo_loss": dpo_compared, "sft_loss": sft_compared}
COMPARED["policy_loss"] = online_compared


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Peaks, differences and printed lines of one run of a program's ``main``."""
    module = program(request["program"])
    name = request.get("loss", "")
    which = request.get("watched", 2)
    # A backward beside the step's would be one more that DDP hears of.
    compared = None if os.environ.get("WORLD_SIZE") else COMPARED.get(name)
    watch = Watch(module, request["step"], name, compared, which) if name else None
    told = io.StringIO()
    sys.argv = [request["program"], *request["arguments"]]
    sys.path.insert(0, str(Path(request["program"]).parent))  # as python does for a script
    try:
        with contextlib.redirect_stdout(told), torch.backends.mkldnn.flags(enabled=False):
            module.main()
    except SystemExit as stopped:
        return {"stopped": str(stopped.code), "told": told.getvalue()}
    finally:
        sys.path.pop(0)
        sys.modules.pop("reward", None)  # the next program's is another
    found: dict[str, Any] = {"told": told.getvalue()}
    if watch is not None:
        found |= {"peaks": watch.peaks, "ours": watch.ours}
    return found


def bucket_bytes() -> int:
    """What DDP's reducer says of its buckets, which no object of Python holds."""
    from torch.nn.parallel import DistributedDataParallel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        all_of = [each for each in gc.get_objects() if isinstance(each, DistributedDataParallel)]
    buckets = [one for each in all_of for one in each.reducer._get_zeros_like_grad_buckets()]
    return sum(bucket.buffer().nbytes for bucket in buckets)


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    write(Path(sys.argv[1]))
    # Libraries' own objects need not be looked at in every run.
    gc.collect()
    gc.freeze()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        try:
            found = answer(json.loads(line))
        except Exception:
            found = {"error": traceback.format_exc()[-3000:]}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
