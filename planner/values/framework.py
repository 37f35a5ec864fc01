"""What a framework is to a plan and its formulas: facts of its code, each told by its name.

Whoever adds a framework says what its code does (:class:`Framework`), and nothing else asks for
its name. Imports no torch, and of ours only what a rule and a loss are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.rule import Rule
from planner.units import MIB
from planner.values.loss_code import LossCode


@dataclass(frozen=True, slots=True)
class Word:
    """What a framework calls a field of a plan: its option, and its label where that differs."""

    option: str
    label: str = ""

    @property
    def short(self) -> str:
        """The option without the path to it."""
        return self.option.rpartition(".")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardEngine:
    """An engine for the reward model on the trainer's cards, by defaults that no field sets."""

    share_percent: int
    """Of each card, while it scores."""
    gpus: int
    """That one engine is spread over."""
    max_num_batched_tokens: int
    dtype: str
    """Of its weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSide:
    """What its processes are to a node's RAM; counts are of those beside one rank for each GPU."""

    imports_bytes: int = 326 * MIB
    """Anonymous memory of a process that has imported what trains, without a card."""
    helpers: int = 0
    """Python processes beside the ranks, shared by the run's nodes."""
    services_bytes: int = 0
    """What a cluster's own services hold on a node."""
    engine_in_trainer: bool = True
    """A colocated engine is part of the rank's process; else it has its own on each GPU."""
    engine_merges_adapters: bool = False
    """Trained adapters reach the engine as merged weights; else it serves them beside its base."""
    engine_helpers: int = 0
    """Processes without a card that stand before each engine in processes of its own."""
    stored_bytes_per_token: int = 0
    """Bytes of one token of a step's batch in shared memory between processes; 0: none is."""
    pins_between_phases: bool = False
    """What waits between phases is copied without blocking, into pinned buffers."""
    pins_activations: bool = False
    """Offloaded activations wait in pinned buffers."""
    fsdp_readers: Literal["first", "all", "all-in-passing"] = "first"
    """Under FSDP a checkpoint's weights are read by rank 0; by every rank, which keeps them until
    they are sharded; or by every rank, of which all but the first drop each tensor at once."""
    alone_reads_to_gpu: bool = False
    """A run of a single process loads weights straight to its GPU and converts each there."""
    tied_on_every_rank: bool = False
    """A model whose head is its embedding is read and kept by every rank, also under FSDP."""
    saves: Literal["whole", "shards"] = "whole"
    """A checkpoint under FSDP: one state dict on rank 0, or each rank's shards with optimizer."""
    saves_optimizer: bool = False
    """A checkpoint has the optimizer's state in it, from which a run can go on."""
    saves_weights_again: bool = False
    """Beside the model's own files it has the sharding write its weights, to go on from."""
    gathers_frozen: bool = False
    """Under FSDP it gathers the whole model to save the adapters."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Framework:
    """A framework: versions, defaults, limits, and what decides its memory.

    Flags say what is true of its step where the step of this project (``plain``) does
    otherwise; False is what the plain step does.
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
    whole_reference: str = "copy"
    """``copy`` or ``offloaded``: the form of a whole model as reference, where nobody chose."""
    rules: tuple[Rule, ...] = ()
    """What a plan with this framework cannot be; asked of no other plan."""
    steps_are_ours: bool = False
    """Its steps are the methods' own, so it trains each of them; others have trainers of theirs."""
    loss_makes_reference: bool = False
    """Its loss can make the reference's log-probs, of cached hidden states or of dual outputs."""
    scores_reference_in_loss: bool = False
    """DPO's reference scores each micro-batch inside the loss, beside what the policy saved."""
    reference_loaded_like_policy: bool = False
    """A whole reference has the policy's stored dtype: fp32 beside an fp32 master."""
    widens_as_it_shards: bool = False
    """Weights to be sharded are loaded in the compute dtype; trained ones become an fp32 master.

    The reference stays as it was loaded.
    """
    reference_requires_gradients: bool = False
    """Nothing freezes a whole reference, so autocast caches copies of its weights, too."""
    reference_streamed: bool = False
    """FSDP streams an offloaded reference from host RAM while it computes."""
    leaves_gathered: bool = False
    """FSDP's weights stay as a forward without gradient has left them: gathered, where they are not
    resharded after it, until a backward of the model ends; a model without one has none."""
    wraps_tables: bool = False
    """FSDP2 has an untied embedding and a head as units of their own, like layers."""
    reward_loaded_like_policy: bool = False
    """A reward model is loaded in the dtype that the policy is, fp32 beside an fp32 master."""
    reward_engine: RewardEngine | None = None
    """A reward model is served by an engine of its own beside the trainer, and not by the step."""
    reward_whole: bool = False
    """FSDP shards no reward model: every GPU has it whole."""
    wraps_flat: bool = False
    """Where a plan says FSDP1, units are its own, with flat weights."""
    reference_gathered_whole: bool = False
    """FSDP2 shards the reference as one unit, which a forward gathers whole."""
    head_stays_gathered: bool = False
    """FSDP2's units are the embedding, each layer, and final norm with head, which stays gathered.

    Tied embeddings are one unit with the head.
    """
    autocasts_adapters: bool = False
    """Adapters in fp32 over a half-precision base run under autocast, as a trainer's default is."""
    answering_adapter_requires_gradients: bool = False
    """A frozen second adapter does so while it answers, and autocast caches copies of it."""
    adapts_modules_alone: bool = False
    """Whole tensors of experts, which are no modules, get no adapters."""
    base_in_master_dtype: bool = False
    """The frozen base below adapters is stored like the adapters, in the master dtype."""
    numbers_rows: bool = False
    """Every row comes with positions of its own, so rotary tables are as many as rows."""
    batch_waits_on_host: bool = False
    """A step's batch is in host RAM; a micro-batch of it alone is on the GPU."""
    embeds_with_gradient: bool = False
    """The embedding's output requires a gradient below adapters, checkpointed or not.

    It is a leaf of the graph, and stays with its gradient until the next micro-batch goes backward.
    """
    liger_patches_trained_only: bool = False
    """Liger's kernels reach the trained model; a reference that stands by then has none."""
    decays_weights: bool = False
    """Its optimizers decay weights unless told otherwise."""
    offload_stash: int = 1
    """Offloaded tensors that its trainer still has on the GPU while a forward runs."""
    widens_moments_of_embeddings: bool = False
    """8-bit optimizers of bitsandbytes are asked for fp32 moments of embeddings."""
    reduces_once_an_update: bool = False
    """FSDP reduces gradients in an update's last micro-batch alone; they are whole until then."""
    ddp_copies_output: Callable[[Any], bool] = lambda plan: False
    """Whether DDP looks for weights without gradient, of anything with a plan's fields: it then
    copies every output of the model that has one, logits among them."""
    pads_rollout: bool = False
    """Rows that a GPU sampled are padded to the longest of them all, not of their micro-batch."""
    pads_micro_batches: bool = False
    """Rows are padded to the longest of their micro-batch, so that one by itself has no padding."""
    validates_first: bool = False
    """A run that validates begins with it, before its first step."""
    validates_by_micro_batch: bool = False
    """Each micro-batch of a validation is generated, scored and given a loss before the next."""
    scores_as_responses_end: bool = False
    """Rules and other machines score a response once it has ended, while others still decode."""
    balances_tokens: bool = False
    """Sequences of a step are dealt out so that every GPU has about as many tokens."""
    sync_bucket_bytes: int = 0
    """Bucket that updated weights travel to the engine in; 0: the largest weight at a time."""
    packed_sync_bytes: int = 0
    """Buffer in which a separate engine's weights are joined; 0: each by itself."""
    sends_each_weight: tuple[str, ...] = ()
    """Versions that ask a separate engine for each weight by itself; others announce them all."""
    looped_experts: tuple[str, int] = ("", 1)
    """Releases that loop over experts in Python, in words (empty where nobody runs one), and GPUs
    that may share a row there, which no plan says: each loops for every one of their rows."""
    host: HostSide = HostSide()
    """What its processes are to a node's RAM."""
    attention: Mapping[str, str] = field(default_factory=dict)
    """By role, the kernel that its code asks for whatever a plan's ``attention`` says."""
    words: Mapping[str, Word] = field(default_factory=dict)
    """What it calls a plan's fields, where it has words of its own."""
    beside: Mapping[str, Word] = field(default_factory=dict)
    """What it calls settings that no plan has, which people look for all the same."""
    batch_options: Callable[[Any], Mapping[str, int]] = lambda plan: {}
    """A plan's batch as its options have it; of anything with a plan's fields."""
    settled: Callable[[Any], Mapping[str, int]] = lambda plan: {}
    """Fields of a plan that no option of it says: its loop sets them by others, to these values."""
    path_notes: Mapping[str, str] = field(default_factory=dict)
    """A sentence about an estimate, by the logits path that runs."""

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
    numbers_by_sequence: bool = False
    """Whether an update keeps one old log-prob, advantage and so on a sequence, not a token."""
    own: Any = None
    """What a dry run of the framework's own code needs to know; None where it cannot be run so."""

    def told(self, plan: Any) -> Mapping[str, Any]:
        """Of these settings those of a plan's variation, or of its method where it has none."""
        name = plan.method if plan.variation == "none" else plan.variation
        return self.variations.get(name, {})
