"""The driver, NCCL and cuBLAS: outside torch's allocator, mostly without a number."""

from __future__ import annotations

from planner.importer.memory_errors.message import Form, patterns

FORMS = (
    Form(
        "NCCL",
        r"Failed to (?:CUDA|HIP) (?:calloc|malloc)(?: async)?",
        "shortage",
        patterns(asked=r"(?:calloc|malloc)(?: async)? {S}"),
    ),
    Form("NCCL", "Cuda failure (?:2 )?'out of memory'", "shortage"),
    Form("cuBLAS", "CUBLAS_STATUS_ALLOC_FAILED", "shortage"),
    # cublasCreate needs memory too; a wrong index of an earlier kernel can look the same.
    Form("cuBLAS", "CUBLAS_STATUS_NOT_INITIALIZED", "not said"),
    Form(
        "the driver",
        "(?:CUDA|HIP)(?: driver)? error: (?:out of memory|hipErrorOutOfMemory)",
        "shortage",
    ),
    Form("the driver", "cudaErrorMemoryAllocation", "shortage"),
)
