"""What starts programs: ``torchrun``, ``accelerate launch``, ``srun``, ``uv run``, ``python -m``.

An option of a launcher takes the next word unless it is a flag: of those that a run is started
with, flags are listed (read from their parsers in torch 2.13, accelerate 1.15; Slurm 25.05's,
DeepSpeed 0.19's and uv 0.9's from their manuals); of those that only stand in front, options that
take a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


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

    def is_flag(self, text: str) -> bool:
        """Whether an option does not take the next word; ``-N4`` and ``--nodes=4`` have theirs."""
        if "=" in text:
            return True
        if self.flags is None:
            return text not in self.valued
        return text in self.flags or (len(text) > 2 and text[1] != "-")


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
