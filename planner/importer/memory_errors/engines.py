"""Rollout engines that do not start, or find no room for their cache: vLLM's and SGLang's words."""

from __future__ import annotations

from planner.importer.memory_errors.message import Form, patterns

FORMS = (
    # gpu_worker.py and worker_utils.py of vLLM; both figures are rounded to two decimals.
    Form(
        "vLLM start",
        "is less than desired GPU memory utilization",
        "engine's share",
        patterns(
            free=r"on device[^(]{0,20}\((\d{1,6}(?:\.\d{1,2})?)/[\d.]{1,9} (GiB)\)",
            total=r"on device[^(]{0,20}\([\d.]{1,9}/{S}\)",
            wanted=r"utilization \([\d.]{1,9}, {S}\)",
        ),
        patterns(
            gpu=r"on device cuda:(\d{1,4})", share=r"utilization \(([\d.]{1,9}),"
        ),
        decimals=2,
        begins="Free memory on device",
        ends="wanted",
    ),
    Form("vLLM cache", "No available memory for the cache blocks", "engine's share"),
    # kv_cache_utils.py of vLLM; before 0.10 it says GB and leaves out a space.
    Form(
        "vLLM sequence",
        "which is larger than the available KV [cC]ache memory",
        "engine's share",
        patterns(
            asked=r"\(?{S} KV cache is ?needed", free=r"available KV [cC]ache memory \({S}\)"
        ),
        patterns(
            tokens=r"max seq len \((\d{1,12})\)",
            most_tokens=r"maximum model length is (\d{1,12})",
        ),
        decimals=2,
        begins="To serve at least one request",
        ends="free",
    ),
    Form(
        "vLLM sequence",
        "larger than the maximum number of tokens that can be stored in KV cache",
        "engine's share",
        said=patterns(
            tokens=r"max seq len \((\d{1,12})\)", most_tokens=r"KV cache \((\d{1,12})\)"
        ),
        begins="The model's max seq len",
    ),
    # csrc/cumem_allocator.cpp of vLLM: the pool that sleeps and wakes.
    Form("vLLM wake-up", "CUDA Error: out of memory at", "engine's share"),
    Form(
        "SGLang start",
        "Not enough memory. Please try to increase --mem-fraction-static",
        "engine's share",
        said=patterns(share=r"mem_fraction_static=([\d.]{1,9})"),
    ),
    Form(
        "SGLang start",
        "Loading the model failed. Please try to increase --mem-fraction-static",
        "engine's share",
    ),
    Form("SGLang run", "(?:Prefill|Decode) out of memory. Try to lower", "engine's share"),
)
