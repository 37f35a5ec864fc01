"""What a framework is to a plan and its formulas: facts of its code, each told by its name.

Whoever adds a framework says what its code does (:class:`Framework`), and nothing else asks for
its name. Imports no torch, and of ours only what a rule and a loss are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.numeric import Num
from planner.rule import NoEffect, Rule
from planner.units import MIB
from planner.values.loss_code import LossCode
from planner.values.model_setup import ModelSetup
from planner.values.sharding import sharding_of

Sync = tuple[
    Literal["weights", "adapters"], Literal["each", "asked", "bucket", "packed"], int
]
"""What travels to an engine; each by itself, asked for one by one, in buckets, or joined; bytes of
a buffer."""


@dataclass(frozen=True, slots=True)
class Word:
    """What a framework calls a field of a plan: its option, and its label where that differs."""

    option: str
    label: str = ""

    @property
    def short(self) -> str:
        """The option without the path to it."""
        return self.option.rpartition(".")[2]


def read_by_first(plan: Any, ranks: Num, tied: bool) -> tuple[Num, Num]:
    """Every rank reads a whole model; the first one alone what is sharded."""
    kept = 1 if sharding_of(plan).gathers else ranks
    return kept, kept


def read_by_all(plan: Any, ranks: Num, tied: bool) -> tuple[Num, Num]:
    """The same where every rank reads under FSDP, too: transformers 5.23 does."""
    kept = 1 if sharding_of(plan).zero == 3 else ranks
    return kept, kept


def loaded_narrow(plan: Any, model: ModelSetup) -> dict[str, Any]:
    """Where FSDP1 makes an fp32 master of weights that were loaded in the compute dtype."""
    late = model.trained and sharding_of(plan).fsdp == 1
    return {"loaded": plan.dtype} if late else {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Framework:
    """A framework: versions, defaults, limits, and what decides its memory.

    Defaults are what the step of this project (``plain``) does; a framework sets what its own step
    does otherwise.
    """

    name: str
    """Folder, and value of a plan's ``framework``."""
    label: str
    """Name for people."""
    order: int
    """Place in lists, lowest first."""
    versions: tuple[str, ...]
    """Versions whose memory has been read in their source, newest first: a new plan's first."""
    loop_read: str
    """What was read of its training loop: the files that say in which order a step holds and frees
    what. Empty where nobody read it: plans of it are incomplete then, by the step of ``plain``."""
    loss: Mapping[str, LossCode]
    """How each version that was read meets the vocabulary; formulas know more than plans may."""
    defaults: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda values: {}
    """Fields that nobody set, given those that were: the framework's own defaults."""
    rules: tuple[Rule | NoEffect, ...] = ()
    """What a plan with this framework cannot be, and what changes nothing in it; asked of no other
    plan."""
    steps_are_ours: bool = False
    """Its steps are the methods' own, so it trains each of them; others have trainers of theirs."""
    models: Callable[[Any, ModelSetup], Mapping[str, Any]] = lambda plan, model: {}
    """What its code makes of a model of a plan otherwise than the plain step: fields of it."""
    leaves_gathered: bool = False
    """FSDP's weights stay as a forward without gradient has left them: gathered, where they are not
    resharded after it, until a backward of the model ends; a model without one has none."""
    units: tuple[tuple[str, ...], ...] = (("embedding", "norm", "head"),)
    """FSDP2's units of an untied model beside one for each layer. One of the final norm and the
    head stays gathered after a forward; tied embeddings are one unit with the head."""
    reward_engine: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a plan as an engine has them that serves the reward model on the trainer's cards;
    empty: the step scores."""
    autocasts_adapters: bool = False
    """Adapters in fp32 over a half-precision base run under autocast, as a trainer's default is."""
    adapts_modules_alone: bool = False
    """Whole tensors of experts, which are no modules, get no adapters."""
    numbers_rows: bool = False
    """Every row comes with positions of its own, so rotary tables are as many as rows."""
    decays_weights: bool = False
    """Its optimizers decay weights unless told otherwise."""
    widens_moments_of_embeddings: bool = False
    """8-bit optimizers of bitsandbytes are asked for fp32 moments of embeddings."""
    reduces_once_an_update: bool = False
    """FSDP reduces gradients in an update's last micro-batch alone; they are whole until then."""
    ddp_copies_output: Callable[[Any], bool] = lambda plan: False
    """Whether DDP looks for weights without gradient, of anything with a plan's fields: it then
    copies every output of the model that has one, logits among them."""
    pads_to: Literal["", "micro-batch", "rollout"] = ""
    """Rows are padded to the longest of their micro-batch, so that one by itself has no padding; or
    to the longest that their GPU sampled in a step."""
    validates: Literal["", "first", "by micro-batch"] = ""
    """A run that validates begins with it; or each micro-batch of a validation is generated, scored
    and given a loss before the next."""
    balances_tokens: bool = False
    """Sequences of a step are dealt out so that every GPU has about as many tokens."""
    sync: Callable[[Any], Sync] = lambda plan: (
        ("weights" if plan.finetuning == "full" else "adapters"), "each", 0
    )
    """What of a plan's updated weights travels to its engine, how, and bytes of a buffer. An engine
    serves adapters beside its base, unless they reach it as merged weights."""
    looped_experts: tuple[str, int] = ("", 1)
    """Releases that loop over experts in Python, in words (empty where nobody runs one), and GPUs
    that may share a row there, which no plan says: each loops for every one of their rows."""
    host_bytes: Mapping[str, int] = field(default_factory=lambda: {"process": 326 * MIB})
    """In a node's RAM: of a ``process`` that has imported what trains, without a card; of a
    cluster's own ``services``; of a ``token`` of a step's batch, where that waits in shared memory
    and a micro-batch of it alone is on the GPU."""
    helpers: Mapping[str, int] = field(default_factory=dict)
    """Python processes without a card: of a ``run``, and those that score a ``reward`` as soon as a
    response has ended, shared by its nodes; and of each engine that has processes of its own, by a
    plan's ``rollout``. An engine that is not listed is part of the rank's process."""
    pinned: Mapping[str, int] = field(default_factory=dict)
    """What is copied to host RAM without blocking, into pinned buffers (what waits
    ``between-phases``, offloaded ``activations``), and how many tensors of it that its trainer
    still has on the GPU while a forward runs."""
    copies: Callable[[Any, Num, bool], tuple[Num, Num]] = read_by_first
    """Copies of a model's weights in a node's RAM while its ranks read and convert them, and at
    most; of a plan, its ranks on the node, and whether the head is the embedding."""
    checkpoint: Literal["weights", "state", "shards"] = "weights"
    """What it writes: what is trained; with it the optimizer's state and all that the sharding
    itself writes, made whole on rank 0; or each rank's shards of weights and optimizer."""
    words: Mapping[str, Word] = field(default_factory=dict)
    """What it calls a plan's fields, where it has words of its own."""
    beside: Mapping[str, Word] = field(default_factory=dict)
    """What it calls settings that no plan has, which people look for all the same."""
    batch_options: Callable[[Any], Mapping[str, int]] = lambda plan: {}
    """A plan's batch as its options have it; of anything with a plan's fields."""
    settled: Callable[[Any], Mapping[str, int]] = lambda plan: {}
    """Fields of a plan that no option of it says: its loop sets them by others, to these values."""

    @property
    def unread(self) -> str:
        """That nobody read its training loop, as a clause; empty where somebody did."""
        return "" if self.loop_read else f"nobody has read {self.label}'s training loop"

    def loss_code(self, version: str) -> LossCode:
        """How this version meets the vocabulary.

        Raises:
            ValueError: its source was not read; the message says which were.
        """
        if version not in self.loss:
            raise ValueError(
                f"framework_version {version!r} of {self.name} is not one whose loss was read; "
                f"known: {', '.join(self.loss)}"
            )
        return self.loss[version]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """What a framework has for one method, the room of the pair: a trainer, or why there is none.

    It is the value ``TRAINER`` of ``planner/frameworks/<framework>/trainers/<method's folder>.py``,
    or of ``on_<framework>.py`` in the method's folder: whoever comes later brings it.
    """

    missing: str = ""
    """Why no plan can have this pair, as a sentence; empty where it can."""
    rules: tuple[Rule, ...] = ()
    """What a plan of this pair cannot be."""
    defaults: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda values: {}
    """Fields that nobody set, given those that were, beside the framework's own."""
    export: Any = None
    """What the framework's exporter needs to know of the method; None where it writes no script."""
    not_exported: str = ""
    """Why it writes none, as a sentence."""
    variations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The framework's settings that make a published variation of the method, by its name; by the
    method's own where another one's command becomes it."""
    own_old_log_probs: Callable[[Any], bool] = lambda plan: False
    """Whether its loss takes its own log-probs as the old ones, so that no phase makes them."""
    scores_reference_in_loss: bool = False
    """Whether the reference scores each micro-batch inside the loss, beside what the policy saved.
    """
    numbers_by_sequence: bool = False
    """Whether an update keeps one old log-prob, advantage and so on a sequence, not a token."""
    own: Any = None
    """What a dry run of the framework's own code needs to know; None where it cannot be run so."""

    def told(self, plan: Any) -> Mapping[str, Any]:
        """Of these settings those of a plan's variation, or of its method where it has none."""
        name = plan.method if plan.variation == "none" else plan.variation
        return self.variations.get(name, {})
