"""Host RAM: Ray's memory monitor, the kernel, a scheduler, and torch's allocator for the CPU."""

from __future__ import annotations

from planner.importer.memory_errors.message import Form, patterns

FORMS = (
    # src/ray/raylet of Ray 2.2 to 2.60; its GB are of 2**30 bytes.
    Form(
        "Ray monitor",
        r"Memory on the node \(IP: ",
        "host RAM",
        patterns(
            process_used="memory used={S}",
            used="was {S} (?:used )?/",
            total=r"was [\d.]{1,12} ?GB (?:used )?/ {S}",
        ),
        patterns(
            task=r"name=([\w.:]{1,120})",
            node=r"\(IP: ([\w.:]{1,60})",
            threshold=r"threshold of (\d\.\d{1,9})",
        ),
        ends="total",
    ),
    Form(
        "Ray raylet",
        r"Workers \(tasks / actors\) killed due to memory pressure \(OOM\)",
        "host RAM",
        said=patterns(node=r"IP: ([\w.:]{1,60})"),
    ),
    Form(
        "the kernel",
        "(?:Memory cgroup o|O)ut of memory: Kill(?:ed)? process",
        "host RAM",
        patterns(process_used="anon-rss:{S}"),
        patterns(task=r"process \d{1,9} \(([^)]{1,60})\)"),
    ),
    Form(
        "the kernel",
        "oom-kill:constraint=",
        "host RAM",
        said=patterns(constraint=r"constraint=CONSTRAINT_(\w{1,20})", task=r",task=([^,]{1,60})"),
    ),
    Form("the kernel", r"oom_kill event", "host RAM"),
    Form("the kernel", "OOMKilled", "host RAM"),
    Form(
        "torch on the CPU",
        r"DefaultCPUAllocator: (?:not enough memory|can't allocate memory): you tried to allocate",
        "host RAM",
        patterns(asked="tried to allocate {S}"),
    ),
    Form(
        "NumPy",
        r"Unable to allocate [\d.]{1,12} [KMGTPE]iB for an array",
        "host RAM",
        patterns(asked="allocate {S}"),
    ),
    # A signal that nothing can catch: nearly always the kernel, and never said to be.
    Form("signal 9", r"(?:code|status)(?: {1,2}:|:|=)? ?(?:137|-9)\b", "host RAM"),
    Form("signal 9", r"Signal 9 \(SIGKILL\)", "host RAM"),
    Form("signal 9", r"Signals\.SIGKILL: 9", "host RAM"),
    Form("signal 9", r"^(?:\S{1,200}: line \d{1,6}: +\d{1,9} )?Killed\b", "host RAM"),
)
