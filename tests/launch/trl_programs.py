"""Runs programs around TRL in the worker's process: what they log, score and allocate."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import _disable_current_modes

from live_bytes import LiveBytes

TILE = 512
"""Columns of a tile of logits, enough for a tiny vocabulary; TRL's own tiles are 64 times wider."""


def tiny_model(folder: Path, *, hidden: int, layers: int) -> dict[str, Any]:
    """A Qwen2 of random weights and a tokenizer of bytes; returns its config.json."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    alphabet = enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()), start=2)
    words = {"<eos>": 0, "<pad>": 1, **{letter: place for place, letter in alphabet}}
    tokenizer = Tokenizer(models.BPE(words, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>"
    ).save_pretrained(folder)
    config = Qwen2Config(
        vocab_size=len(words),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=0,
        bos_token_id=None,
        pad_token_id=1,
        tie_word_embeddings=False,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What a request of this kind asks for."""
    kinds = {"make": _make, "run": _run, "score": _score, "ask": _ask, "train": _train}
    return kinds[request["kind"]](request)


def _train(request: dict[str, Any]) -> dict[str, Any]:
    """TRL's own script, as accelerate would start it in a bundle's folder: what it logs."""
    from transformers import Trainer

    logs: list[Any] = []
    log = Trainer.log

    def logged(self: Any, found: Any, *given: Any) -> None:
        log(self, found, *given)
        logs.append(dict(self.state.log_history[-1]))

    torch.set_num_threads(1)
    with (
        contextlib.chdir(request["folder"]),
        patch.object(Trainer, "log", logged),
        patch.object(sys, "argv", ["script", *request["argv"], "--use_cpu", "True"]),
        patch.object(sys, "path", [request["folder"], *sys.path]),
    ):
        runpy.run_module(request["module"], run_name="__main__")
    sys.modules.pop("reward", None)  # the next script's is another
    return {"logs": logs}


OWN = ("method", "trl_version", "card", "reward_model_name_or_path", "reward_funcs")
OWN += ("prompt_tokens", "embedding_batch")
"""What a program's constants hold besides TRL's settings, bytes and the phase of the peak."""


def parsed(request: dict[str, Any]) -> tuple[Any, ...]:
    """What TRL's classes make of a program's settings; an error for one that is none of theirs."""
    names = _as_program(request, "program")
    options = names["argparse"].Namespace(
        output="out", model="", device="cpu", revision=None, engine_host="127.0.0.1"
    )
    names["arguments"].__globals__["rows"] = lambda options: None
    training, _ = names["arguments"](names["PLAN"], options)
    known = {*training.__dataclass_fields__, *names["ModelConfig"].__dataclass_fields__}
    for name in names["PLAN"]:
        if name not in known and name not in OWN and not name.endswith(("_bytes", "_phase")):
            raise ValueError(f"{name} is no setting of TRL's")
    return (training,)


def _make(request: dict[str, Any]) -> dict[str, Any]:
    folder = Path(request["folder"])
    return {"config": tiny_model(folder, hidden=request["hidden"], layers=request["layers"])}


def _run(request: dict[str, Any]) -> dict[str, Any]:
    """The program as ``python`` would run it: its log, its words, and peaks by phase if asked."""
    from trl import GRPOTrainer

    logs: list[Any] = []
    order: list[Any] = []
    log, take = GRPOTrainer.log, GRPOTrainer._generate

    def logged(self: Any, found: Any, *given: Any) -> None:
        log(self, found, *given)
        logs.append(dict(self.state.log_history[-1]))

    def taken(self: Any, prompts: Any) -> Any:
        order.append(list(prompts))
        return take(self, prompts)

    words = io.StringIO()
    torch.set_num_threads(1)
    live = LiveBytes()
    passes = request.get("watch")
    watched = phases(live, passes) if passes else contextlib.nullcontext({})
    with (
        patch.object(GRPOTrainer, "log", logged),
        patch.object(GRPOTrainer, "_generate", taken),
        contextlib.redirect_stdout(words),
        watched as peaks,
    ):
        try:
            _as_program(request, "__main__")
            ended = ""
        except SystemExit as stopped:
            ended = str(stopped.code)
    return {
        "logs": logs, "prompts": order, "words": words.getvalue(), "ended": ended, "peaks": peaks,
    }


def _as_program(request: dict[str, Any], name: str) -> dict[str, Any]:
    program = Path(request["program"])
    with (
        patch.object(sys, "argv", [str(program), *request.get("argv", [])]),
        patch.object(sys, "path", [str(program.parent), *sys.path]),
    ):
        found = runpy.run_path(str(program), run_name=name)
    sys.modules.pop("reward", None)  # the next program's is another
    return found


@contextmanager
def phases(live: LiveBytes, passes: list[str]) -> Iterator[dict[str, int]]:
    """Most live bytes of each phase of the last step, as this mode counts storages.

    ``passes`` are a step's without gradient, in their order.

    Where a GPU runs a kernel in registers, its stand-in in torch computes unseen.
    """
    from accelerate import Accelerator
    from accelerate.optimizer import AcceleratedOptimizer
    from trl import GRPOTrainer
    from trl.kernels import chunked_logprob
    from trl.trainer import utils

    found: dict[str, int] = {}
    waiting: list[str] = []

    def phase(name: str | Callable[[], str], inner: Any) -> Any:
        def run(*given: Any, **options: Any) -> Any:
            if isinstance(name, str) and name == "rollout":
                waiting[:] = passes
                found.clear()
            title = name if isinstance(name, str) else name()
            live.reset_peak()
            result = inner(*given, **options)
            if title:
                found[title] = max(found.get(title, 0), live.peak)
            return result

        return run

    def scoring() -> str:
        return "" if torch.is_grad_enabled() else waiting.pop(0)

    def trained(inner: Any) -> Any:
        def run(self: Any, *given: Any, **options: Any) -> Any:
            # Weights come out of their file without an operator.
            for model in filter(None, (self.model, self.ref_model)):
                for tensor in (*model.parameters(), *model.buffers()):
                    live.meet(tensor.untyped_storage(), "loaded")
            return inner(self, *given, **options)

        return run

    def unseen(inner: Any) -> Any:
        def run(*given: Any, **options: Any) -> Any:
            with _disable_current_modes():
                return inner(*given, **options)

        return run

    trainer, head = GRPOTrainer, chunked_logprob
    scored = trainer._get_per_token_logps_and_entropies
    with (
        patch.object(
            trainer, "_generate_single_turn", phase("rollout", trainer._generate_single_turn)
        ),
        patch.object(trainer, "_get_per_token_logps_and_entropies", phase(scoring, scored)),
        patch.object(trainer, "compute_loss", phase("policy forward", trainer.compute_loss)),
        patch.object(Accelerator, "backward", phase("policy backward", Accelerator.backward)),
        patch.object(
            AcceleratedOptimizer, "step", phase("optimizer step", AcceleratedOptimizer.step)
        ),
        patch.object(head, "_forward_tile", unseen(head._forward_tile)),
        patch.object(head, "_backward_tile", unseen(head._backward_tile)),
        patch.object(head, "_addmm_fp32", unseen(head._addmm_fp32)),
        patch.object(trainer, "train", trained(trainer.train)),
        patch.object(utils, "_use_triton", lambda _: True),
        patch.object(utils, "_CHUNKED_LOGPROB_CHUNK_SIZE", TILE),
        torch.backends.mkldnn.flags(enabled=False),
        live,
    ):
        yield found


def _score(request: dict[str, Any]) -> dict[str, Any]:
    """Self-certainty of a response alone and in a padded batch, and by hand in 64 bits."""
    names = _as_program(request, "program")
    with patch.object(sys, "argv", ["program", *request["argv"]]):
        options, _ = names["started"](names["argparse"].ArgumentParser(), names["PLAN"])
        training, given = names["arguments"](names["PLAN"], options)
    trainer = names["IntuitorTrainer"](args=training, **given)
    prompt, response = request["prompt"], request["response"]
    exact = trainer.model.double()(input_ids=torch.tensor([prompt + response])).logits[0]
    exact = exact[len(prompt) - 1 : -1] / training.temperature
    by_hand = torch.logsumexp(exact, -1) - exact.mean(-1)
    trainer.model.float()
    found = {}
    for name, longest, more in (("alone", len(prompt), 0), ("padded", len(prompt) + 5, 7)):
        rows = [(prompt, response)]
        if name == "padded":
            rows.append((list(range(3, 3 + longest)), response[:2] + response * 9))
        width = len(response) + more
        ids = torch.ones(len(rows), longest + width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, (before, after) in enumerate(rows):
            start, end = longest - len(before), longest + len(after[:width])
            ids[row, start:end] = torch.tensor(before + after[:width])
            mask[row, start:end] = 1
        trainer.certainties = None
        with torch.no_grad():
            log_probs, *_ = trainer._get_per_token_logps_and_entropies(
                trainer.model, ids, mask, width
            )
        certain = trainer.certainties
        reward = trainer.self_certainty([after[:width] for _, after in rows])[0]
        found[name] = {
            "tokens": certain[0].tolist(), "reward": reward, "log_probs": log_probs[0].tolist(),
        }
    taken = torch.log_softmax(exact, -1)[range(len(response)), response]
    return {**found, "by_hand": by_hand.tolist(), "log_probs_by_hand": taken.tolist()}


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    """What a few lines make of ``program``, the names that it defines: their ``found``."""
    names = SimpleNamespace(**_as_program(request, "program"))
    inside: dict[str, Any] = {"program": names, "torch": torch, **request.get("given", {})}
    exec(request["lines"], inside)
    return {"found": inside["found"]}
