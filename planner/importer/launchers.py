"""What starts programs: ``torchrun``, ``accelerate launch``, ``srun``, ``uv run``, ``python -m``.

A command is taken out of its launchers one after the other. An option of a launcher takes the next
word unless it is a flag: of those that a run is started with, flags are listed (read from their
parsers in torch 2.13, accelerate 1.15; Slurm 25.05's, DeepSpeed 0.19's and uv 0.9's from their
manuals); of those that only stand in front, options that take a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from planner.importer.given import Word


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Launcher:
    """How the words of one are taken apart."""

    flags: frozenset[str] | None = None
    """Options without a value, where all others have one."""
    valued: frozenset[str] = frozenset()
    """Options with a value, where ``flags`` is None and all others are flags."""
    operands: int = 0
    """Words of its own before the command: an image, a duration."""
    runs_python: bool = False
    """Whether what follows is a script for Python."""
    counts: bool = True
    """Whether whoever reads a plan has to know it."""


TORCHRUN = Launcher(
    flags=_set(
        "--standalone -m --module --no-python --no_python --run-path --run_path -h --help "
        "--virtual-local-rank --virtual_local_rank"
    ),
    runs_python=True,
)
ACCELERATE = Launcher(
    flags=_set(
        "-h --help --quiet -q --cpu --multi_gpu --multi-gpu --tpu --use_deepspeed "
        "--use-deepspeed --use_fsdp --use-fsdp --use_parallelism_config "
        "--use-parallelism-config --use_megatron_lm --use-megatron-lm --tpu_use_sudo "
        "--tpu-use-sudo --no_tpu_cluster --no-tpu-cluster --tpu_cluster --tpu-cluster --debug "
        "-m --module --no_python --no-python --enable_cpu_affinity --enable-cpu-affinity "
        "--downcast_bf16 --downcast-bf16 --same_network --same-network --dynamo_use_dynamic "
        "--dynamo-use-dynamic --dynamo_use_fullgraph --dynamo-use-fullgraph "
        "--dynamo_use_regional_compilation --dynamo-use-regional-compilation "
        "--fp8_use_autocast_during_eval --fp8-use-autocast-during-eval "
        "--ipex --use_xpu --use-xpu --use_mps_device --use-mps-device --use_tp"
    ),
    runs_python=True,
)
DEEPSPEED = Launcher(
    flags=_set(
        "-h --help --module --no_python --no_local_rank --no_ssh --no_ssh_check --force_multi "
        "--save_pid --enable_each_rank_log_off --bind_cores_to_rank -v --detect_nvlink_pairs"
    ),
    runs_python=True,
)
SLURM = Launcher(
    flags=_set(
        "-l --label -u --unbuffered -v --verbose -Q --quiet --pty -K --kill-on-bad-exit "
        "--exclusive --overlap --exact -O --overcommit -s --oversubscribe -X --disable-status "
        "-H --hold -W --wait --parsable --requeue --no-requeue --contiguous --spread-job "
        "--use-min-nodes --container-mount-home --no-container-mount-home --container-remap-root "
        "--no-container-remap-root --container-writable --no-container-entrypoint --no-kill -k "
        "-I --immediate --reboot --preserve-env -E --propagate --nvmps -Z --no-allocate"
    )
)
RAY = Launcher(flags=_set("--no-wait --verbose -v --log-color-off --exit-on-error"))
UV = Launcher(
    valued=_set(
        "--with --with-editable --with-requirements --extra --no-extra --group --no-group "
        "--only-group --python -p --project --directory --env-file --index --default-index "
        "--index-url -i --extra-index-url --find-links -f --package --refresh-package "
        "--upgrade-package -P --no-build-package --no-binary-package --resolution --prerelease "
        "--link-mode --cache-dir --color --config-file --index-strategy --exclude-newer "
        "--config-setting -C --torch-backend"
    )
)
MPI = Launcher(
    valued=_set(
        "-n -np -N -x -H --host -host --hostfile -hostfile --machinefile -machinefile -mca --mca "
        "--map-by -map-by --bind-to -bind-to -npernode --npernode -ppn --rank-by -wdir"
    )
)
CONTAINER = Launcher(
    valued=_set("-B --bind --env --env-file --pwd -H --home --overlay -S --scratch -w"),
    operands=1,
    counts=False,
)


def _before(valued: str = "", operands: int = 0) -> Launcher:
    return Launcher(valued=_set(valued), operands=operands, counts=False)


LAUNCHERS: Mapping[tuple[str, ...], Launcher] = {
    ("torchrun",): TORCHRUN,
    ("accelerate", "launch"): ACCELERATE,
    ("accelerate-launch",): ACCELERATE,
    ("deepspeed",): DEEPSPEED,
    ("srun",): SLURM,
    ("sbatch",): SLURM,
    ("ray", "job", "submit"): RAY,
    ("uv", "run"): UV,
    ("mpirun",): MPI,
    ("mpiexec",): MPI,
    ("poetry", "run"): Launcher(),
    ("pixi", "run"): Launcher(valued=_set("-e --environment --manifest-path")),
    ("conda", "run"): _before("-n --name -p --prefix --cwd"),
    ("mamba", "run"): _before("-n --name -p --prefix --cwd"),
    ("micromamba", "run"): _before("-n --name -p --prefix --cwd"),
    ("singularity", "exec"): CONTAINER,
    ("apptainer", "exec"): CONTAINER,
    ("nsys", "profile"): _before("-o -t -w -s -c -f --output --trace --sample --delay --duration"),
    ("nohup",): _before(),
    ("env",): _before("-u --unset -C --chdir"),
    ("exec",): _before("-a"),
    ("command",): _before(),
    ("time",): _before("-o -f"),
    ("sudo",): _before("-u -g -h -p -C --user --group"),
    ("nice",): _before("-n --adjustment"),
    ("ionice",): _before("-c -n --class --classdata"),
    ("timeout",): _before("-s -k --signal --kill-after", operands=1),
    ("stdbuf",): _before("-i -o -e --input --output --error"),
    ("setsid",): _before(),
    ("unbuffer",): _before(),
    ("numactl",): _before("-i -N -m -C -p -l --interleave"),
    ("taskset",): _before(operands=1),
}
MODULES: Mapping[str, tuple[str, ...]] = {
    "torch.distributed.run": ("torchrun",),
    "torch.distributed.launch": ("torchrun",),
    "accelerate.commands.launch": ("accelerate", "launch"),
    "deepspeed.launcher.runner": ("deepspeed",),
    "deepspeed": ("deepspeed",),
}
"""``python -m`` of these is the launcher."""
PYTHON = re.compile(r"(?:python|pypy)[\d.]*$|\$\{?\w*PYTHON\w*\}?$", re.I)
PYTHON_VALUED = _set("-W -X --check-hash-based-pycs")
SHELLS = _set("bash sh zsh dash")
COMMANDS = _set(
    "swift megatron llamafactory-cli lmf axolotl tune xtuner autotrain vllm oumi prime-rl"
)
"""Programs of frameworks, started by ``name subcommand``."""
RAN_ANYWAY = _set(
    "echo printf ls cat nvidia-smi sleep hostname mkdir rm cp mv ray pip pip3 uv wget curl git cd "
    "export source set true false tee head tail grep sed awk find kill pkill wait bc date which "
    "huggingface-cli hf wandb conda scontrol docker"
)
"""Of these none is a training run, whatever launches it."""


@dataclass(frozen=True, slots=True)
class Started:
    """What a command starts, once its launchers are off."""

    program: str | None
    """None: a shell, which reads ``arguments`` as one is started with."""
    arguments: tuple[Word, ...]
    launchers: tuple[tuple[str, tuple[Word, ...]], ...]
    environment: Mapping[str, Word]


def started(words: tuple[Word, ...], commands: Iterable[str] = ()) -> Started | None:
    """The program that these words start; None for whatever trains nothing.

    Args:
        words: the command.
        commands: names of further programs that are started by ``name subcommand``.
    """
    known = COMMANDS | set(commands)
    launchers: list[tuple[str, tuple[Word, ...]]] = []
    environment: dict[str, Word] = {}
    while words:
        found = _launcher(words)
        if found is None:
            break
        name, options, words, python = found
        shown = options
        if name == "env":
            shown = tuple(one for one in options if not _assigned(one))
            environment |= {_assigned(one): _value(one) for one in options if _assigned(one)}
        if LAUNCHERS[tuple(name.split())].counts:
            launchers.append((name, shown))
        if python and words:
            return Started(words[0].text, words[1:], tuple(launchers), environment)
    if not words:
        return None
    head = PurePosixPath(words[0].text).name
    if PYTHON.search(head):
        return _python(words[1:], tuple(launchers), environment, commands)
    if launchers and launchers[-1][0] == "sbatch":
        return Started(None, words, tuple(launchers), environment)
    if head in SHELLS:
        return Started(None, words[1:], tuple(launchers), environment)
    if head.endswith(".py"):
        return Started(words[0].text, words[1:], tuple(launchers), environment)
    if head in known and len(words) > 1:
        program = f"{head} {words[1].text}"
        return Started(program, words[2:], tuple(launchers), environment)
    if launchers and head not in RAN_ANYWAY and not head.startswith("-"):
        return Started(words[0].text, words[1:], tuple(launchers), environment)
    return None


def _assigned(word: Word) -> str:
    found = re.match(r"([A-Za-z_]\w*)=", word.text)
    return found[1] if found else ""


def _value(word: Word) -> Word:
    return word.part(word.text.index("=") + 1)


def _launcher(
    words: tuple[Word, ...],
) -> tuple[str, tuple[Word, ...], tuple[Word, ...], bool] | None:
    """The launcher's name, its own words, what follows, and whether that is a Python script."""
    texts = (PurePosixPath(words[0].text).name, *(word.text for word in words[1:3]))
    name = next((name for name in LAUNCHERS if texts[: len(name)] == name), None)
    if name is None:
        return None
    launcher, at = LAUNCHERS[name], len(name)
    first, python = at, launcher.runs_python
    while at < len(words):
        text = words[at].text
        if name == ("env",) and _assigned(words[at]):
            at += 1
        elif not text.startswith("-") or text == "-" or text == "--":
            break
        else:
            if text in ("--no-python", "--no_python"):
                python = False
            if name == ("uv", "run") and text in ("-m", "--module"):
                break
            at += 1 if _is_flag(launcher, text) else 2
    options, rest = words[first:at], words[at:]
    if rest and rest[0].text == "--":
        rest = rest[1:]
    if name == ("uv", "run") and rest and rest[0].text in ("-m", "--module"):
        rest = (Word("python"), *rest)
    return " ".join(name), options, rest[launcher.operands :], python


def _is_flag(launcher: Launcher, text: str) -> bool:
    """Whether an option does not take the next word; ``-N4`` and ``--nodes=4`` have theirs."""
    if "=" in text:
        return True
    if launcher.flags is None:
        return text not in launcher.valued
    return text in launcher.flags or (len(text) > 2 and text[1] != "-")


def _python(
    words: tuple[Word, ...],
    launchers: tuple[tuple[str, tuple[Word, ...]], ...],
    environment: Mapping[str, Word],
    commands: Iterable[str],
) -> Started | None:
    at = 0
    while at < len(words) and words[at].text.startswith("-") and words[at].text != "-":
        text = words[at].text
        if text.startswith("-c") or text in ("--version", "-V", "-h", "--help"):
            return None
        if re.fullmatch(r"-[A-Za-z]*m", text):
            break
        at += 2 if text in PYTHON_VALUED else 1
    if at >= len(words):
        return Started("-", (), launchers, environment)
    if not words[at].text.startswith("-") or words[at].text == "-":
        return Started(words[at].text, words[at + 1 :], launchers, environment)
    if at + 1 >= len(words):
        return None
    module, rest = words[at + 1].text, words[at + 2 :]
    if module in MODULES:
        inner = started((*map(Word, MODULES[module]), *rest), commands)
        if inner is None:
            return None
        return Started(
            inner.program,
            inner.arguments,
            (*launchers, *inner.launchers),
            {**environment, **inner.environment},
        )
    return Started(module, rest, launchers, environment)
