"""Programs as two processes: shares of every update, in the bytes that DDP keeps."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest

from free_ports import free_port
from launch import test_dpo_program as dpo
from launch import test_grade_program as grade
from launch.own_programs import ADAPTERS, AUTOCAST, takes_what_is_planned
from launch.running import Worker, run, unpack
from planner.frameworks.plain.exporter import write
from planner.plan import Plan

FOUR = ("--steps", "4")
"""DDP makes its buckets anew in the second step, in the order in which gradients came."""
PATIENCE_SECONDS = 60
BOTH: dict[str, Any] = {"gpus": 2, "sharding": "ddp"}


class Ranks:
    """Two workers, as torchrun would start them."""

    def __init__(self, folder: Path) -> None:
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        common |= {"PYTHONFAULTHANDLER": "1"}
        with ThreadPoolExecutor() as pool:
            self.workers = list(pool.map(lambda rank: self._begin(folder, rank, common), range(2)))

    @staticmethod
    def _begin(folder: Path, rank: int, common: dict[str, str]) -> Worker:
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        return Worker("program_worker.py", str(folder / str(rank)), **common, **own)

    def ask(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """The answers of both to one request; one that ends with an error ends the other too."""
        with ThreadPoolExecutor() as pool:
            asked = [pool.submit(worker.ask, request) for worker in self.workers]
            try:
                for done in as_completed(asked, timeout=PATIENCE_SECONDS):
                    assert not {"error", "stopped"} & done.result().keys(), done.result()
            except TimeoutError:
                self.kill()
                raise AssertionError([str(each.exception()) for each in asked]) from None
            except BaseException:
                self.kill()
                raise
        return [each.result() for each in asked]

    def kill(self) -> None:
        """End both at once; each says on stderr where it was, which its answer then holds."""
        for worker in self.workers:
            worker.process.send_signal(signal.SIGABRT)

    def close(self) -> None:
        """End both."""
        for worker in self.workers:
            worker.close()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    begun = Ranks(tmp_path_factory.mktemp("ranks"))
    yield begun
    begun.close()


def buckets(plan: Plan) -> int:
    """DDP's flat copy of all gradients: four bytes for each number that trains."""
    from planner.formulas.lora import lora_weights
    from planner.formulas.parameters import parameter_count
    from planner.plan.facts import facts_of

    arch = facts_of(plan).policy
    if plan.finetuning == "full":
        return 4 * int(parameter_count(arch))
    linears = lora_weights(arch, ("all-linear",))
    sides = sum(each.count * (each.in_features + each.out_features) for each in linears)
    return 4 * plan.lora_rank * sides


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "grade": (grade, {"batch_shape": "full", "prompts_per_step": 4, "micro_batch_size": 2}),
    "grade-adapters": (
        grade,
        {
            **grade.LEAN,
            **ADAPTERS,
            "grade_kl": "online",
            "batch_shape": "full",
            "prompts_per_step": 4,
        },
    ),
    "dpo": (
        dpo,
        {
            **AUTOCAST,
            "batch_shape": "full",
            "prompts_per_step": 4,
            "prompts_per_update": 4,
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_process_takes_the_dry_runs_bytes_and_ddps_buckets(
    case: str, ranks: Ranks, tiny: Path, programs: Worker, tmp_path: Path
) -> None:
    module, changes = CASES[case]
    plan = module.planned(**BOTH, **changes)
    if module is grade:
        request = grade.asked(tmp_path, tiny, plan, *FOUR)
    else:
        exported = dpo.Exported(plan, tmp_path, tiny, programs)
        request = exported.asked("train_dpo.py", *FOUR, step="step", loss="dpo_loss")
    found = ranks.ask({**request, "watched": 3})
    for each in found:
        takes_what_is_planned(plan, each, buckets(plan))
    assert "Step 4" in found[0]["told"] and found[1]["told"] == ""


def losses(found: dict[str, Any]) -> list[float]:
    return [float(one) for one in re.findall(r"loss ([-\d.e]+)", found["told"])]


def test_two_processes_learn_what_one_learns(
    ranks: Ranks, programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    sizes = {"prompts_per_step": 4, "prompts_per_update": 2}
    alone = dpo.Exported(dpo.planned(**sizes), tmp_path / "alone", tiny, programs)
    both = dpo.Exported(dpo.planned(**sizes, **BOTH), tmp_path / "both", tiny, programs)
    one = losses(alone.train())
    other = losses(ranks.ask(both.asked("train_dpo.py", "--steps", "3"))[0])
    assert len(one) == 3 and one[0] != one[2]
    assert other == pytest.approx(one, rel=1e-5)
    assert (both.folder / "out" / "model.safetensors").is_file()


def test_two_processes_make_one_cache(
    ranks: Ranks, programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    cached = {"reference": "cached-logprobs", "prompts_per_step": 4, "prompts_per_update": 4}
    both = dpo.Exported(dpo.planned(**cached, **BOTH), tmp_path / "both", tiny, programs)
    told = ranks.ask(both.asked("precompute_reference.py"))[0]["told"]
    assert "reference-00000.safetensors: 6 pairs" in told
    live = dpo.planned(prompts_per_step=4, prompts_per_update=4)
    wanted = losses(dpo.Exported(live, tmp_path / "live", tiny, programs).train())
    found = losses(ranks.ask(both.asked("train_dpo.py", "--steps", "3"))[0])
    assert found == pytest.approx(wanted, rel=1e-5)


def test_a_process_alone_does_not_train_a_plan_of_two(
    programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    plan = dpo.planned(prompts_per_step=4, prompts_per_update=4, **BOTH)
    why = dpo.Exported(plan, tmp_path, tiny, programs).train()["stopped"]
    assert why == "gpus: the plan has 2, a process each, and 1 began; launch.sh begins as many."


def test_launch_sh_begins_a_process_for_each_gpu(tmp_path: Path) -> None:
    plan = dpo.planned(
        reference="cached-logprobs", prompts_per_step=4, prompts_per_update=4, **BOTH
    )
    places = {"DATASET": "/data.jsonl", "OUTPUT_DIR": "/out", "MODEL": "/model"}
    words = run(unpack(write(plan, ""), tmp_path), **places)
    begun = ["python3", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    assert words == [
        [*begun, name, "--model", "/model", "--data", "/data.jsonl", "--output", "/out"]
        for name in ("precompute_reference.py", "train_dpo.py")
    ]
