"""What is known of the machine that samples: measured by a run's calibration, or assumed.

Nothing here is fitted to a prediction. An assumption names where it was measured; what nobody
measured anywhere is None, and so is every time that rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass

CORE_FLOPS_PER_SECOND = 18e9
"""Of one core in matrix products: 36 GFLOP/s on two cores of a cloud machine, measured while this
project was planned. Servers' cores do two to four times as much."""
READ_BYTES_PER_SECOND = 1.2e9
"""Of a stored chunk read from the system's cache into an array: 0.57 s for 668 MB, measured on the
same machine."""
ADDED_BYTES_PER_SECOND = 0.64e9
"""Of vectors copied into the lists of an index, whose memory is new: 1.05 s for 668 MB there."""
ASSUMED = "assumed: 36 GFLOP/s on two cores, measured once on a cloud machine; calibrate yours"
CALIBRATED = "measured by this run's calibration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a calibration and a run's beginning say; None is not known.

    ``prompt_seconds`` is the time of one prompt's embedding, ``pair_seconds`` that of one product
    (a pair of vectors and dimension) of an exact search or of a search over centres,
    ``scan_seconds`` that of one product in a probed list, ``read_seconds`` that of a byte read from
    a chunk, ``add_seconds`` that of one copied into a list. ``embed_process_bytes`` and
    ``search_process_bytes`` are what the processes hold before they compute, ``threads_bytes`` what
    a search leaves there. ``compressed_share`` is what a compressor left of its first embeddings.
    """

    prompt_seconds: float | None = None
    pair_seconds: float | None = None
    scan_seconds: float | None = None
    read_seconds: float | None = None
    add_seconds: float | None = None
    embed_process_bytes: int | None = None
    search_process_bytes: int | None = None
    threads_bytes: int | None = None
    compressed_share: float | None = None


NOTHING = Measured()
MB = 10**6
PROCESS_BYTES = {"embed": 300 * MB, "exact": 133 * MB, "faiss-flat": 47 * MB, "faiss-ivf": 47 * MB}
"""Anonymous memory of a process after its imports: the one that embeds, and those that search by
the index. Measured (docs/sampling.md)."""
THREAD_BYTES = {"exact": MB, "faiss-flat": 4 * MB, "faiss-ivf": 7 * MB}
"""Of a core, what a search leaves in its libraries: 2 to 4, 6 to 10 and 13 MB on two cores
(docs/sampling.md)."""
TORCH_BESIDE = 270 * MB
"""What the embedding libraries add to a process that searches too."""
COMPRESSED_SHARES = {"fp32": 0.925, "fp16": 0.918}
"""What Parquet's zstd leaves of stored unit vectors. Measured on random directions
(docs/sampling.md): signs and mantissas are noise."""
WEIGHING_BYTES = 104
"""Of a prompt while weights are made: its line's place and distance, 8 each, and its key, a string
of 80 in a list. 41.4 MB measured for 400,000 (docs/sampling.md)."""
