"""What a trial is asked to run, as a command's arguments and as a file; and what that means.

No torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from planner.jobs.strict import Bytes, JobRequest, in_a_sentence
from planner.plan import Plan
from planner.plan.lengths import at_longest
from planner.plan.link import from_query_string
from planner.plan.query import to_query_string
from planner.trial.ask.result import Device, WholePlanLink, now
from planner.trial.cluster.address import cluster_address, host_of

LIMIT_SECONDS = 300.0
SNAPSHOT = "allocations"
"""Name of the file of allocations in a trial's own folder."""
STEPS, WARM_UP = 3, 2

Layers = Annotated[int, Field(ge=1, le=1000)]
Place = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00-\x1f]*$")]


def _address(text: str) -> str:
    try:
        return cluster_address(text) if text else ""
    except ValueError as error:
        raise ValueError(str(error).removeprefix("ray: ").rstrip(".")) from None


Cluster = Annotated[str, Field(max_length=300), AfterValidator(_address)]


class TrialRequest(JobRequest):
    """One trial. Paths are on the machine that runs it; empty ones are not given."""

    plan: WholePlanLink
    steps: Annotated[int, Field(ge=1, le=1000)] = STEPS
    """Measured steps."""
    warm_up: Annotated[int, Field(ge=1, le=1000)] = WARM_UP
    """Steps before them; the first makes the optimizer's states."""
    cap_bytes: Annotated[Bytes, Field(ge=1)] | None = None
    """Memory that the device plays to have; None is all."""
    limit_seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = LIMIT_SECONDS
    """Longest that the worker may take, imports and dry runs included."""
    host_limit_bytes: Annotated[Bytes, Field(ge=1)] | None = None
    """Most resident memory of the worker's processes; None is 80 % of what is available."""
    model_folder: Place = ""
    """A local model's folder (safetensors); empty runs random weights."""
    lengths: Literal["full", "random"] = "full"
    """Rows at the plan's caps, or of random lengths below them."""
    truncate: Literal["auto", "never"] = "auto"
    """Run fewer layers where the whole model does not fit, or run into the end of memory."""
    depths: Annotated[tuple[Layers, ...], Field(max_length=2)] = ()
    """Two numbers of layers to run whatever fits; empty lets the trial decide."""
    snapshot: Place = ""
    """Where to write the allocations: a CUDA memory snapshot, or a CPU trace.

    A name without a folder is a file in the trial's own folder.
    """
    processes: Annotated[int, Field(ge=1, le=4096)] = 1
    """Processes to start with torchrun, one a device."""
    ray: Cluster = ""
    """Address of the Ray cluster that runs it; empty is this machine."""

    @model_validator(mode="after")
    def _holds_on_a_cluster(self) -> Self:
        if self.ray and self.device not in ("cpu", "cuda:0"):
            raise ValueError("device: Ray chooses the card on its cluster; give cuda:0, or cpu")
        if self.ray and self.snapshot:
            raise ValueError(
                "snapshot: it would stay on the cluster's node; leave it out, or run the trial here"
            )
        return self

    def planned(self) -> Plan:
        """The plan."""
        plan = from_query_string(self.plan).plan
        assert plan is not None
        return plan

    @property
    def kind(self) -> Literal["cpu", "cuda"]:
        """The kind of device."""
        return "cpu" if self.device == "cpu" else "cuda"

    def devices(self) -> tuple[str, ...]:
        """Every device that is occupied; a cluster is one, whatever stands in it."""
        if self.ray:
            return (f"ray:{host_of(self.ray)}",)
        if self.kind == "cpu":
            return ("cpu",)
        first = int(self.device.partition(":")[2])
        return tuple(f"cuda:{first + place}" for place in range(self.processes))

    def asked(self, identifier: str) -> dict[str, Any]:
        """What a result has of its request, whatever comes of it."""
        return {
            "id": identifier,
            "created": now(),
            "plan": self.plan,
            "device": Device(kind=self.kind, name=self.device, cap_bytes=self.cap_bytes),
            "steps": self.steps,
            "warm_up": self.warm_up,
            "lengths": self.lengths,
            "weights": "local" if self.model_folder else "random",
        }

    @property
    def where(self) -> str:
        """The device, and the cluster it belongs to, in words."""
        return f"{self.device} of the Ray cluster {host_of(self.ray)}" if self.ray else self.device


def request_of(plan: Plan, **choices: object) -> TrialRequest:
    """A request for a plan, whose every response is then the longest there can be.

    Raises:
        ValueError: a sentence that names the field.
    """
    with in_a_sentence():
        return TrialRequest.model_validate({"plan": to_query_string(at_longest(plan)), **choices})


def read_request(text: str) -> TrialRequest:
    """The request in a trial's folder.

    Raises:
        ValueError: a sentence that names the field.
    """
    with in_a_sentence():
        return TrialRequest.model_validate_json(text)


def existing_folder(text: str) -> str:
    """A folder's full path, for a worker that may run elsewhere in the file system.

    Raises:
        ValueError: when there is no such folder.
    """
    if not Path(text).is_dir():
        raise ValueError(f"model_folder: {text} is no folder on this machine.")
    return str(Path(text).resolve())
