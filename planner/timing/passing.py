"""How one row of the table of work runs: its forwards, precision, kernels and adapters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from planner.catalog.architecture import Architecture
from planner.catalog.gpu_catalog import Gpu
from planner.formulas.memory_bound import Mode
from planner.numeric import Num
from planner.phases.phase import Work
from planner.phases.scene import Scene
from planner.setup import workload
from planner.timing import layers


@dataclass(frozen=True, kw_only=True)
class Passing:
    """A pass of a step on one GPU, in the words that its causes of time need."""

    scene: Scene
    row: Work

    @property
    def gpu(self) -> Gpu:
        """The card."""
        return self.scene.facts.gpu

    @property
    def arch(self) -> Architecture:
        """The model."""
        return self.row.role.arch

    @property
    def backward(self) -> bool:
        """Whether gradients are made."""
        return self.row.run == "backward"

    @property
    def runs_layers(self) -> bool:
        """Whether anything runs through the layers."""
        return not (isinstance(self.row.tokens, int) and not self.row.tokens)

    @property
    def scores(self) -> bool:
        """Whether anything meets the vocabulary."""
        return not (isinstance(self.row.scored_tokens, int) and not self.row.scored_tokens)

    @cached_property
    def forwards(self) -> Num:
        """Forwards that the step is made of: one a round, unless a round unrolls several."""
        runs = self.row.layer_runs
        single = isinstance(runs, int) and not runs
        return self.row.rounds if single else runs / self.arch.layers

    @cached_property
    def rows(self) -> Num:
        """Positions of one forward."""
        return self.row.tokens / self.forwards

    @cached_property
    def precision(self) -> str:
        """In the activation formulas' words."""
        setup, model = self.scene.setup, self.scene.setup.model(self.row.role.name)
        if model is None or self.row.elsewhere:
            return self.scene.plan.dtype
        return workload.precision_of(setup, model)

    @property
    def dtype(self) -> str:
        """What products compute in."""
        return "bf16" if self.precision == "autocast-bf16" else self.precision

    @property
    def value_bytes(self) -> int:
        """Bytes of one activation value."""
        return 4 if self.precision == "fp32" else 2

    @cached_property
    def mode(self) -> Mode:
        """Kernel by kernel, under autocast, or fused."""
        setup, plan = self.scene.setup, self.scene.plan
        model = setup.model(self.row.role.name)
        liger = plan.liger if model is None else workload.with_liger(setup, model)
        if liger or (plan.compile and not workload.compile_breaks(plan)):
            return "fused"
        return "autocast" if self.precision == "autocast-bf16" else "eager"

    @cached_property
    def adapters(self) -> layers.Shapes:
        """Matrices of the adapters that compute; empty where none do."""
        role, plan = self.row.role, self.scene.plan
        if not role.adapters or role.disabled:
            return ()
        return layers.adapters(self.arch, plan.lora_rank, workload.targets(plan))

    @property
    def adapted(self) -> int:
        """Adapted projections of one layer."""
        return round(sum(shape.matrices for shape in self.adapters) / 2 / self.arch.layers)

    @property
    def adapter_dtype(self) -> str:
        """What adapters compute in."""
        setup = self.scene.setup
        wide = setup.adapters_in_fp32 and not setup.autocasts_adapters
        return "fp32" if wide else self.dtype

    @property
    def weights_train(self) -> bool:
        """Whether the layers' own weights get gradients."""
        return self.row.role.trained and not self.row.role.adapters

    @property
    def four_bit(self) -> bool:
        """Whether the projections' weights are kept in 4 bits."""
        model = self.scene.setup.model(self.row.role.name)
        return model is not None and workload.four_bit(self.scene.setup, model)

    @cached_property
    def again(self) -> int:
        """Times that a backward repeats the layers' forward."""
        return self.row.recomputed if self.backward else 0
