"""Out-of-memory text: libraries' own sentences where they run here, else as they print."""

from __future__ import annotations

import random
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from accuracy.messages.sentence import format_size
from planner.importer.memory_errors import Frame, Size, read_messages
from planner.importer.memory_errors.message import printed
from planner.units import GIB, MIB

TORCH = (
    "torch.OutOfMemoryError: {device} out of memory. Tried to allocate 4.64 GiB. GPU 3 has a total "
    "capacity of 79.11 GiB of which {free} is free. {processes}{allowed}Of the allocated memory "
    "{allocated} is allocated by PyTorch, {private}and {left} is reserved by PyTorch but "
    "unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)
PLAIN = {
    "device": "CUDA",
    "free": "3.18 GiB",
    "processes": "Including non-PyTorch memory, this process has 75.92 GiB memory in use. ",
    "allowed": "",
    "allocated": "74.10 GiB",
    "private": "",
    "left": "301.94 MiB",
}


def test_every_figure_of_torchs_sentence() -> None:
    private = "with 118.00 MiB allocated in private pools (e.g., CUDA Graphs), "
    [message] = read_messages(TORCH.format(**PLAIN | {"private": private, "free": "0 bytes"}))
    assert (message.form, message.gpu, message.cause) == ("torch", 3, "shortage")
    assert message.sizes["free"] == Size(0, 0)
    assert message.sizes["private"].holds(118 * MIB)
    assert message.sizes["asked"].holds(4_982_833_152) and message.sizes["asked"].high < 4.65 * GIB
    assert {"total", "in_use", "allocated", "unallocated"} <= message.sizes.keys()


@pytest.mark.parametrize(
    ("parts", "cause"),
    [
        ({}, "shortage"),
        ({"device": "HIP"}, "shortage"),
        ({"left": "6.10 GiB", "allocated": "68.30 GiB"}, "fragmentation"),
        ({"left": "512.00 MiB"}, "shortage"),
        ({"processes": "Process 71 has 30.10 GiB memory in use. " + PLAIN["processes"]},
         "another process"),
        ({"processes": "Process 71 has 75.92 GiB memory in use. "}, "shortage"),
        ({"free": "40.00 GiB", "allowed": "8.00 GiB allowed; "}, "process limit"),
        ({"processes": "Including non-PyTorch memory, this process has 20.00 GiB memory in use. "},
         "another process"),
    ],
)  # fmt: skip
def test_the_cause_follows_from_the_figures(parts: dict[str, str], cause: str) -> None:
    [message] = read_messages(TORCH.format(**PLAIN | parts))
    assert message.cause == cause
    assert message.said["device"] == parts.get("device", "CUDA")


def test_the_sentence_of_torch_2_0_in_brackets() -> None:
    text = (
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.90 GiB total "
        "capacity; 14.93 GiB already allocated; 19.88 MiB free; 15.01 GiB reserved in total by "
        "PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb"
    )
    [message] = read_messages(text)
    assert message.sizes["unallocated"].holds(82 * MIB) and message.gpu == 0
    assert message.cause == "shortage"  # 82 MiB of 15 GiB is no fragmentation
    assert message.sizes["total"].holds(int(15.9 * GIB))


def test_a_number_holds_every_size_that_prints_so() -> None:
    dice = random.Random(7)
    for _ in range(5_000):
        size = int(2 ** dice.uniform(0, 42))
        number, unit = format_size(size).split()
        found = printed(number, unit)
        assert found is not None and found.holds(size)
        assert format_size(found.low - 1) != format_size(size) != format_size(found.high + 1)


def test_a_size_that_no_card_has_is_left_out() -> None:
    huge = "Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. "
    [message] = read_messages(TORCH.format(**PLAIN | {"processes": huge}))
    assert "in_use" not in message.sizes


LOG = """\
(WorkerDict pid=4711, ip=10.0.0.3) Traceback (most recent call last):
(WorkerDict pid=4712, ip=10.0.0.3)   File "/of/another/process.py", line 1, in strange
(WorkerDict pid=4711, ip=10.0.0.3)   File "/site/verl/actor.py", line 300, in update_policy
(WorkerDict pid=4711, ip=10.0.0.3)     loss.backward()
(WorkerDict pid=4711, ip=10.0.0.3)   File "/site/torch/autograd/graph.py", line 829, in _engine
(WorkerDict pid=4711, ip=10.0.0.3) {sentence}
"""


def test_prefixes_come_off_and_frames_are_of_the_same_process() -> None:
    [message] = read_messages(LOG.format(sentence=TORCH.format(**PLAIN)))
    assert message.process == "WorkerDict pid=4711"
    assert message.frames == (
        Frame("/site/verl/actor.py", "update_policy", "loss.backward()"),
        Frame("/site/torch/autograd/graph.py", "_engine"),
    )


def test_a_wrapped_sentence_of_a_rank_is_read_whole_and_counted() -> None:
    words = TORCH.format(**PLAIN).split()
    lines = [" ".join(words[at : at + 9]) for at in range(0, len(words), 9)]
    text = "\n".join(f"2026-03-01 10:00:00,123 [rank5]: {line}" for line in lines)
    [message] = read_messages(f"{text}\n\n{text}")
    assert message.rank == 5 and message.seen == 2
    assert message.sizes["unallocated"].holds(int(301.94 * MIB))
    last = next(at for at, line in enumerate(lines, 1) if "unallocated" in line)
    assert (message.first_line, message.last_line) == (1, last) and last < len(lines)


@pytest.mark.parametrize(
    ("text", "form", "cause", "figures", "said"),
    [
        (
            "ValueError: Free memory on device cuda:0 (31.44/47.38 GiB) on startup\nis less than "
            "desired GPU memory utilization (0.95, 45.01 GiB). Decrease GPU memory utilization",
            "vLLM start", "engine's share",
            {"free": 31.44, "total": 47.38, "wanted": 45.01}, {"share": "0.95"},
        ),
        (
            "Free memory on device (5.0/6.0 GiB) on startup is less than desired GPU memory "
            "utilization (0.9, 5.4 GiB).",
            "vLLM start", "engine's share", {"free": 5.0, "wanted": 5.4}, {"share": "0.9"},
        ),
        (
            "ValueError: No available memory for the cache blocks. Try increasing "
            "`gpu_memory_utilization` when initializing the engine.",
            "vLLM cache", "engine's share", {}, {},
        ),
        (
            "ValueError: To serve at least one request with the models's max seq len (700160), "
            "(6.11 GiB KV cache is needed, which is larger than the available KV cache memory "
            "(5.17 GiB). Based on the available memory, the estimated maximum model length is "
            "566784.",
            "vLLM sequence", "engine's share", {"asked": 6.11, "free": 5.17}, {"tokens": "700160"},
        ),
        (
            "The model's max seq len (32768) is larger than the maximum number of tokens that can "
            "be stored in KV cache (13504). Try increasing `gpu_memory_utilization`",
            "vLLM sequence", "engine's share", {}, {"tokens": "32768", "most_tokens": "13504"},
        ),
        (
            "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
            "vLLM wake-up", "engine's share", {}, {},
        ),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
            "Current value: mem_fraction_static=0.2",
            "SGLang start", "engine's share", {}, {"share": "0.2"},
        ),
        (
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on "
            "memory.\nMemory on the node (IP: 10.0.0.7, ID: 90ef) where the task (task ID: a6, "
            "name=WorkerDict.update, pid=91, memory used=2.22GB) was running was 59.49GB / 62.58GB "
            "(0.950744), which exceeds the memory usage threshold of 0.95. Ray killed this worker",
            "Ray monitor", "host RAM",
            {"used": 59.49, "total": 62.58, "process_used": 2.22},
            {"task": "WorkerDict.update", "node": "10.0.0.7", "threshold": "0.95"},
        ),
        (
            "(raylet) node_manager.cc:3040: 2 Workers (tasks / actors) killed due to memory "
            "pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 2c, IP: 10.1.2.3)",
            "Ray raylet", "host RAM", {}, {"node": "10.1.2.3"},
        ),
        (
            "torch.distributed.DistBackendError: NCCL error: ncclUnhandledCudaError\nLast error:\n"
            "Failed to CUDA calloc async 6291456 bytes",
            "NCCL", "shortage", {"asked": 6291456 / GIB}, {},
        ),
        (
            "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 "
            "'out of memory'",
            "NCCL", "shortage", {}, {},
        ),
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
            "`cublasCreate(handle)`",
            "cuBLAS", "shortage", {}, {},
        ),
        (
            "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
            "cuBLAS", "not said", {}, {},
        ),
        ("RuntimeError: CUDA error: out of memory", "the driver", "shortage", {}, {}),
        (
            "[  510.9] Memory cgroup out of memory: Killed process 2343 (python3) "
            "total-vm:31763532kB, anon-rss:13928044kB, file-rss:12208kB",
            "the kernel", "host RAM", {"process_used": 13928044 / 1024**2}, {"task": "python3"},
        ),
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python3,pid=2343,uid=0",
            "the kernel", "host RAM", {}, {"constraint": "MEMCG", "task": "python3"},
        ),
        ("srun: error: node1: task 3: Exited with exit code 137", "signal 9", "host RAM", {}, {}),
        ("  exitcode  : -9 (pid: 79468)", "signal 9", "host RAM", {}, {}),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=9.0.", "the kernel", "host RAM",
         {}, {}),
    ],
)  # fmt: skip
def test_every_form(
    text: str, form: str, cause: str, figures: dict[str, float], said: dict[str, str]
) -> None:
    [message] = read_messages(f"before\n{text}\nafter")
    assert (message.form, message.cause) == (form, cause)
    assert message.said.items() >= said.items()
    for name, value in figures.items():
        size = message.sizes[name]
        assert size.low / GIB - 1e-9 <= value <= size.high / GIB + 1e-9, name
        assert size.high - size.low < 0.011 * GIB


def test_rays_own_sentence_is_read() -> None:
    """The format in the raylet's binary, and those of two versions before."""
    package = find_spec("ray")
    if package is None or package.submodule_search_locations is None:
        pytest.skip("ray is not installed")
    binary = Path(package.submodule_search_locations[0]) / "core/src/ray/raylet/raylet"
    data = binary.read_bytes()
    begun = data.index(b"Memory on the node (IP: ")
    form = data[begun : data.index(b"\0", begun)].decode()
    task = "Selected to kill: (Task: job ID=1, task name=main, pid=9, actual memory used=2.07GB)"
    table = "PID\tMEM(GB)\tCOMMAND\n9\t2.07\tray::main"
    now = form % (
        *("10.0.0.7", "90ef", "59.49", "62.58", 0.950744, "full", "- bytes used: 0\n", 1, task),
        *(0, "0.00", "10.0.0.7", table),
    )
    before = "Memory on the node (IP: 10.0.0.7, ID: 90ef) was 59.49GB / 62.58GB (0.950744)"
    for text in (now, before, f"{before}, which exceeds the memory usage threshold of 0.950000; a"):
        [message] = read_messages(f"1 worker(s) were killed.\n{text}\n")
        assert (message.form, message.cause) == ("Ray monitor", "host RAM")
        assert message.sizes["used"].holds(round(59.49 * GIB))
        assert message.sizes["total"].holds(round(62.58 * GIB))
        assert message.said["node"] == "10.0.0.7"
    [wrapped] = read_messages(before.replace("62.58GB", "\n62.58GB"))
    assert wrapped.sizes["total"].holds(round(62.58 * GIB))


def test_torchs_own_allocator_for_the_cpu_is_read() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**49, dtype=torch.int8)
    [message] = read_messages(str(caught.value))
    assert (message.form, message.cause) == ("torch on the CPU", "host RAM")
    assert message.sizes["asked"] == Size(2**49, 2**49)


def test_numpys_own_error_is_read() -> None:
    with pytest.raises(MemoryError) as caught:
        np.ones((2**20, 2**25), dtype=np.int8)
    [message] = read_messages(f"numpy._core._exceptions._ArrayMemoryError: {caught.value}")
    assert message.form == "NumPy" and message.sizes["asked"].holds(2**45)


def test_what_bash_says_of_a_killed_process_is_read() -> None:
    script = "sleep 60 & kill -9 $!; wait $!"
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    [message] = read_messages(run.stderr)
    assert (message.form, message.cause) == ("signal 9", "host RAM") and run.returncode == 137


def test_words_alone_are_no_message() -> None:
    text = "It was Killed off. To avoid out of memory errors lower the batch.\nstep 137 code 1379"
    assert read_messages(text) == ()


HOSTILE = (
    *("(", "[rank1]: ", "CUDA out of memory. Tried to allocate ", "9", "Killed\n", '  File "a'),
    *("out of memory \n", "Free memory on device (", "Memory on the node (IP: \n", "\x1b[", "\r"),
    *("exit code 137 ", "'completions/mean_length': '1", "Tried to allocate 1 GiB.", "\u2028"),
)


@pytest.mark.parametrize("text", HOSTILE)
def test_ten_mebibytes_of_anything_take_no_time(text: str) -> None:
    whole = (text * (10 * 2**20 // len(text)))[: 10 * 2**20]
    start = time.process_time()
    read_messages(whole)
    assert time.process_time() - start < 3


def test_more_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="10 MiB; give the part around the error"):
        read_messages("x" * (10 * 2**20 + 1))
