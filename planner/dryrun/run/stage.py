"""The stage of a dry run: the step's code runs on tensors without data, and is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from planner.dryrun.logs import rounds
from planner.dryrun.logs.log import EMPTY_CACHE, OUTSIDE
from planner.dryrun.run.branches import Branches, fallbacks, four_bit, implementation_name
from planner.dryrun.run.branches.cpu import CpuBranches
from planner.dryrun.run.branches.liger import Apply
from planner.dryrun.run.tracker import Tracker
from planner.plan.fields import FLASH
from planner.steps import models
from planner.steps.stage import Place, Stage


class DryStage(Stage):
    """Runs a step on ``device`` fakes under a tracker, with loops cut to what shows their peak."""

    makes_shards = False
    """No tensor has values here, sharded or whole."""

    def __init__(
        self,
        tracker: Tracker,
        device: str = "meta",
        branches: Branches | CpuBranches | None = None,
        kernels: Apply | None = None,
    ) -> None:
        super().__init__(device, "cpu", tracker.phase)
        self._kernels = kernels
        self.tracker = tracker
        self._branches = branches
        self.first = False
        self.whole_length = False
        self._places: Sequence[int] = ()
        self._interrupted = OUTSIDE
        """The layer whose backward an optimizer steps in."""

    def region(self, *, role: str = "", category: str = "") -> AbstractContextManager[None]:
        """Names what is made inside."""
        return self.tracker.region(role, category)

    def rounds(self, count: int, enough: int) -> range:
        """As many rounds as show the peak; one in the step that only makes optimizer states."""
        return range(min(count, 1 if self.first else enough))

    def unrolled(self, count: int) -> Iterator[int]:
        """The first rounds and the last, which show those between; their places are logged."""
        ran = rounds.chosen(count)
        if self.whole_length or len(ran) == count:
            yield from range(count)
            return
        self._places = ran
        self.tracker.log.rounds = count
        try:
            for index, place in enumerate(ran):
                self.tracker.enter_round(index)
                yield place
        finally:
            self.tracker.enter_round(OUTSIDE)

    def turning(self, tensor: torch.Tensor, place: int) -> None:
        """Marks where the backward of a round begins."""
        if not tensor.requires_grad or place not in self._places:
            return
        enter, index = self.tracker.enter_round, self._places.index(place)
        tensor.register_hook(lambda _: enter(index))  # type: ignore[no-untyped-call]

    def decoded(self, tokens: int, enough: int) -> Sequence[int]:
        """The prefill, and the last tokens, beside the whole cache."""
        last = len(self.rounds(tokens, enough)) - 1
        return [0, *range(tokens - last, tokens)]

    def move(self, tensors: Iterable[torch.Tensor], place: Place) -> None:
        """Logs that the tensors are elsewhere; they stay what they are.

        Scales go with their weight in 4 bits, as in bitsandbytes' ``Params4bit.to``.
        """
        self.tracker.enter_block(OUTSIDE)
        for tensor in tensors:
            for one in (tensor, *getattr(tensor, "quant_state", ())):
                self.tracker.move(local(one), place == "host")
        self.tracker.enter_block(OUTSIDE)

    @property
    def rank(self) -> int:
        """The first of all."""
        return 0

    def gathered(self, tensor: torch.Tensor, ranks: int) -> torch.Tensor:
        """As much as all ranks have; there are no others here."""
        return tensor.new_empty(ranks * tensor.shape[0], *tensor.shape[1:])

    def autocast(self, dtype: torch.dtype, enabled: bool) -> AbstractContextManager[Any]:
        """Of the fakes' device; tensors on meta have no autocast and must not be asked for it."""
        device = "cpu" if self.device.type == "meta" else self.device.type
        if enabled and self.device.type == "meta":
            raise ValueError("master_dtype: tensors on the meta device are never autocast.")
        return torch.autocast(device, dtype, enabled=enabled)

    @contextmanager
    def saved_on_host(self) -> Iterator[None]:
        """What autograd saves waits on the host; each comes back as a new tensor."""
        tracker = self.tracker

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            with tracker.on_host():
                return torch.empty_like(tensor)

        with torch.autograd.graph.saved_tensors_hooks(pack, torch.empty_like):
            yield

    def attention(self, kind: str) -> str:
        """The stand-in for a kernel that is not installed here; both FlashAttentions have one."""
        return implementation_name("flash" if kind in FLASH else kind)  # type: ignore[arg-type]

    def numbered(self, tokens: int, longest: int) -> torch.Tensor:
        """The branches are told how many sequences there are."""
        found = super().numbered(tokens, longest)
        if self._branches is not None:
            self._branches.numbered[found] = -(-tokens // longest)
        return found

    def padded(self) -> AbstractContextManager[None]:
        """Masks are made as padding needs them."""
        return nullcontext() if self._branches is None else self._branches.shaped("padded")

    @contextmanager
    def decoding(self, model: Any) -> Iterator[None]:
        """As on the card whose branches are taken, whatever device the fakes are on."""
        before = model.get_experts_implementation()
        after = {
            part: "batched_mm" if name == "grouped_mm" else name for part, name in before.items()
        }
        if isinstance(self._branches, CpuBranches) or after == before:
            yield
            return
        model.set_experts_implementation(after)
        try:
            yield
        finally:
            model.set_experts_implementation(before)

    def four_bit(
        self,
        model: nn.Module,
        layers: nn.ModuleList,
        adapt: Callable[[nn.Module], nn.Module],
        dtype: torch.dtype,
        compute: torch.dtype,
    ) -> nn.Module:
        """The stand-ins for layers whose package is absent."""
        four_bit.quantised(layers, compute)
        model = adapt(model)
        four_bit.adapted(model, dtype)
        return model

    def liger(self, model: nn.Module) -> None:
        """The stand-ins for kernels that cannot run here."""
        if self._kernels is None:
            raise ValueError("liger: this stage was made for a plan without it.")
        self._kernels(model)

    def empty_cache(self) -> None:
        """Logs it for the allocator's simulation."""
        self.tracker.log.events.append((EMPTY_CACHE, 0, 0))

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def labelled(self, role: str, model: nn.Module) -> None:
        """Say whose the weights are and which layer's."""
        for weight, name, block in _placed(model):
            self._describe(weight, role, "parameters", name, block)

    def built(self, role: str, model: nn.Module) -> None:
        """Label weights, mark where layers begin and gradients appear, and say what is no GPU's."""
        self.labelled(role, model)
        if isinstance(self._branches, Branches):
            for sentence in fallbacks(model):
                self._branches.note(sentence)
        for weight, name, block in _placed(model):
            if weight.requires_grad:
                hook = self._gradient(role, name, block)
                weight.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        for index, layer in enumerate(models.layers(model)):
            self._mark(layer, index)
        for name, module in model.named_modules():
            if name:
                self._name(module, plain_name(name))

    def _gradient(self, role: str, name: str, block: int) -> Any:
        def made(weight: torch.Tensor) -> None:
            if weight.grad is not None:
                self._describe(weight.grad, role, "gradients", name, block)

        return made

    def _describe(
        self, tensor: torch.Tensor, role: str, category: str, name: str, block: int
    ) -> None:
        found = local(tensor)
        self.tracker.describe(found, role=role, category=category, module=name, block=block)

    def optimized(self, role: str, optimizer: torch.optim.Optimizer) -> None:
        """What the optimizer makes is its own; its state keeps the layer of its weight."""
        given = [weight for group in optimizer.param_groups for weight in group["params"]]
        trained = [weight for weight in given if weight.requires_grad]
        optimizer.register_step_pre_hook(lambda *_: self._without_gradients(role, trained))
        optimizer.register_step_pre_hook(lambda *_: self._updating(True, role))
        optimizer.register_step_post_hook(lambda *_: self._updating(False, role))

    def _without_gradients(self, role: str, trained: Sequence[torch.Tensor]) -> None:
        """Say so where a framework updates what no backward has reached."""
        note = f"Nothing trains the {role}: none of its tensors has a gradient."
        if all(weight.grad is None for weight in trained) and note not in self.tracker.log.notes:
            self.tracker.log.notes.append(note)

    def _updating(self, begins: bool, role: str) -> None:
        self.tracker.category = "optimizer" if begins else "activations"
        self.tracker.role = role
        if begins:
            self._interrupted = self.tracker.block
        self.tracker.enter_block(OUTSIDE if begins else self._interrupted)

    def _mark(self, layer: nn.Module, index: int) -> None:
        enter = self.tracker.enter_block

        def before(_: nn.Module, __: Any) -> None:
            enter(index)

        def after(_: nn.Module, __: Any, output: Any) -> None:
            enter(OUTSIDE)
            first = output[0] if isinstance(output, tuple) else output
            if isinstance(first, torch.Tensor) and first.requires_grad:
                first.register_hook(lambda _: enter(index))  # type: ignore[no-untyped-call]

        layer.register_forward_pre_hook(before)
        layer.register_forward_hook(after)

    def _name(self, module: nn.Module, name: str) -> None:
        tracker = self.tracker

        def before(_: nn.Module, __: Any) -> None:
            tracker.module = name

        def after(_: nn.Module, __: Any, ___: Any) -> None:
            tracker.module = name.rpartition(".")[0]

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)


def _placed(model: nn.Module) -> Iterator[tuple[torch.Tensor, str, int]]:
    """Each weight and buffer with its name and its layer."""
    layers = {
        id(weight): index
        for index, layer in enumerate(models.layers(model))
        for weight in (*layer.parameters(), *layer.buffers())
    }
    for name, weight in (*model.named_parameters(), *model.named_buffers()):
        yield weight, plain_name(name), layers.get(id(weight), OUTSIDE)


def local(tensor: Any) -> torch.Tensor:
    """The shard of a distributed tensor that is on this rank; other tensors as they are."""
    shard = getattr(tensor, "_local_tensor", tensor)
    return shard  # type: ignore[no-any-return]


def plain_name(name: str) -> str:
    """A module's name without what wraps it."""
    for wrapping in ("model.base_model.model.", "model.body.", "model.model.", "model."):
        if name.startswith(wrapping):
            return name.removeprefix(wrapping)
    return name
