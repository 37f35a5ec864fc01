"""How one row of the table of work runs: its forwards, precision, kernels and adapters."""

from __future__ import annotations

from planner.catalog.gpu_catalog import grouped
from planner.formulas.memory_bound import Mode, layer_kernels
from planner.numeric import Num
from planner.phases.phase import Work
from planner.phases.scene import Scene
from planner.setup import workload
from planner.timing import layers


class Passing:
    """A pass of a step on one GPU, in the words that its causes of time need."""

    def __init__(self, scene: Scene, row: Work) -> None:
        setup, plan = scene.setup, scene.plan
        self.scene, self.row, self.gpu, self.arch = scene, row, scene.facts.gpu, row.role.arch
        self.model = setup.model(row.role.name)
        self.backward = row.run == "backward"
        """Whether gradients are made."""
        self.runs_layers = not is_zero(row.tokens)
        """Whether anything runs through the layers."""
        self.scores = not is_zero(row.scored_tokens)
        """Whether anything meets the vocabulary."""
        single = is_zero(row.layer_runs)
        self.forwards: Num = row.rounds if single else row.layer_runs / self.arch.layers
        """Forwards that the step is made of: one a round, unless a round unrolls several."""
        self.rows: Num = row.tokens / self.forwards
        """Positions of one forward."""
        self.alone = scene.q.logprob_alone if row.run == "score" else scene.q.micro_alone
        """1 where that is one sequence."""
        self.attention = self.model.attention if self.model else plan.attention
        """The kernel's name."""
        self.precision: str = plan.dtype
        if self.model is not None and not row.elsewhere:
            self.precision = workload.precision_of(setup, self.model)
        """In the activation formulas' words."""
        autocast = self.precision == "autocast-bf16"
        self.dtype: str = plan.dtype if autocast else self.precision
        """What products compute in."""
        self.value_bytes = 4 if self.precision == "fp32" else 2
        """Bytes of one activation value."""
        self.again = row.recomputed if self.backward else 0
        """Times that a backward repeats the layers' forward."""
        self.checkpointed = row.role.trained and plan.gradient_checkpointing == "full"
        """Whether each layer is a checkpoint."""
        self.adapters = self._adapters()
        """Matrices of the adapters that compute; empty where none do."""

    @property
    def mode(self) -> Mode:
        """Kernel by kernel, under autocast, or fused; to a compiler Liger's kernels are closed."""
        plan, model = self.scene.plan, self.model
        if model.liger if model else plan.liger:
            return "liger"
        if plan.compile and not workload.compile_breaks(plan, self.attention):
            return "compiled"
        return "autocast" if self.precision == "autocast-bf16" else "eager"

    def _adapters(self) -> layers.Shapes:
        role, plan = self.row.role, self.scene.plan
        if not role.adapters or role.disabled:
            return ()
        return layers.adapters(self.arch, plan.lora_rank, workload.targets(plan))

    @property
    def drops(self) -> bool:
        """Whether adapters drop some of what they read, as they do while they train."""
        return bool(self.scene.plan.lora_dropout > 0) and self.row.run != "score"

    @property
    def adapted(self) -> int:
        """Adapted projections of one layer."""
        return round(sum(shape.matrices for shape in self.adapters) / 2 / self.arch.layers)

    @property
    def kernels(self) -> int:
        """Kernels of one layer's forward."""
        autocast = self.precision == "autocast-bf16"
        return layer_kernels(self.arch, self.mode, self.attention, self.adapted, autocast=autocast)

    @property
    def adapter_dtype(self) -> str:
        """What adapters compute in."""
        setup = self.scene.setup
        wide = setup.adapters_in_fp32 and not setup.autocasts_adapters
        return "fp32" if wide else self.dtype

    @property
    def experts_dtype(self) -> str:
        """What routed experts compute in: autocast does not know their products."""
        return "fp32" if self.precision == "autocast-bf16" else self.dtype

    @property
    def expert_launches(self) -> Num:
        """Kernels of one sparse layer's experts beyond a grouped one of each product."""
        arch = self.arch
        if not arch.experts or grouped(self.gpu, self.experts_dtype):
            return 0
        return 2 * arch.sparse_layers / arch.layers * layers.experts_met(arch, self.rows)

    @property
    def weights_train(self) -> bool:
        """Whether the layers' own weights get gradients."""
        return self.row.role.trained and not self.row.role.adapters

    @property
    def four_bit(self) -> bool:
        """Whether the projections' weights are kept in 4 bits."""
        return self.model is not None and workload.four_bit(self.scene.setup, self.model)


def is_zero(size: Num) -> bool:
    """Whether no plan has any of it; a sweep's array is not looked into."""
    return isinstance(size, (int, float)) and not size
