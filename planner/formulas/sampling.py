"""Memory, disk and work of density-aware sampling, in the order of its stages.

What a library takes beside what it is given was read in its source and measured in processes of
their own (tests/sampling/test_libraries.py, docs/sampling.md). Sizes may be arrays over prompts.
"""

from __future__ import annotations

from planner.formulas.duration import Rate
from planner.formulas.formula import Formula

PIPELINE = "planner/sampling/run: the pipeline's own arrays"
DOCUMENT = "tablekat/nanochat-rlhf-density-sampling at 06b4281, scripts/kat_train_grpo.py (read)"
SKLEARN = "scikit-learn 1.9.1 metrics/_pairwise_distances_reduction (read); measured"
FAISS = "FAISS 1.15.1 utils/distances.cpp, IndexIVF.cpp (read); measured"

PROCESS = Formula(
    "libraries of the process",
    "process_bytes",
    category="buffers",
    source="anonymous memory after imports, measured with torch 2.13.0, transformers 5.23.0, "
    "scikit-learn 1.9.1, faiss-cpu 1.15.1 on Linux; a run's own is known once it has begun",
    why="Python and the libraries that a stage loads hold memory before anything is computed.",
    ignores="other versions",
)
THREADS = Formula(
    "buffers of the libraries' threads",
    "threads_bytes",
    category="buffers",
    source="what a process holds more once it has multiplied and searched and all arrays are "
    "freed, measured with the same versions on two cores; a run's own is known once it has "
    "calibrated",
    why="OpenBLAS and FAISS keep buffers for each of their threads until the process ends.",
)
OFFSETS = Formula(
    "places of the prompts' lines",
    "8 * prompts",
    category="buffers",
    source=PIPELINE,
    why="The file of prompts is read by place; only where each line begins is kept.",
)
TEXTS = Formula(
    "prompts as text",
    "prompts * prompt_tokens * 4",
    category="buffers",
    source=DOCUMENT + "; about four characters a token "
    "(https://help.openai.com/en/articles/4936856, read 2026-11-22)",
    why="The document's code keeps every prompt as text.",
    ignores="that most prompts are shorter than the longest",
)
TOKENS = Formula(
    "token ids of a chunk",
    "minimum(chunk_prompts, prompts) * (prompt_tokens * 4 + 112)",
    category="buffers",
    source=PIPELINE + ": four bytes a token, and 112 of each prompt's array",
    why="A chunk's prompts are tokenized at once, so that batches can be of like lengths.",
    ignores="that most prompts are shorter than the longest, and the tokenizer's own memory",
)
BATCH_LOGITS = Formula(
    "logits of a batch",
    "batch_size * prompt_tokens * vocabulary * value_bytes",
    category="logits",
    source=DOCUMENT,
    why="The document's code takes the mean of logits that are all there: batch, tokens, "
    "vocabulary.",
)
POOLED_LOGITS = Formula(
    "mean logits of a batch",
    "batch_size * vocabulary * (value_bytes + 4)",
    category="logits",
    source=PIPELINE + ": logits are linear in hidden states, so the mean's logits are the mean",
    why="The head sees one mean hidden state a prompt instead of every token.",
)
CHECKED_LOGITS = Formula(
    "logits of one prompt, compared",
    "prompt_tokens * vocabulary * (8 + 2 * value_bytes)",
    category="logits",
    source=PIPELINE + ": whether a model's logits are its head of its hidden states",
    why="On the first prompt both forms are computed and compared.",
    ignores="that the first prompt may be shorter than the longest",
)
CHUNK = Formula(
    "vectors of a chunk",
    "minimum(chunk_prompts, prompts) * dimensions * 4",
    category="buffers",
    source=PIPELINE,
    why="Vectors are made, read and searched a chunk at a time, in fp32.",
)
STORED_CHUNK = Formula(
    "a chunk as it is stored",
    "minimum(chunk_prompts, prompts) * dimensions * value_bytes",
    category="buffers",
    source=PIPELINE,
    why="A chunk is read, or cast to what it is stored in, beside what it becomes.",
)
GROUPS = Formula(
    "row groups of Parquet files",
    "minimum(33554432, minimum(chunk_prompts, prompts) * dimensions * value_bytes)",
    category="buffers",
    source=PIPELINE + ": 16 MiB a row group; measured",
    why="A file is mapped, and a row group of it becomes an array while the one before is there.",
)
READ_GROUPS = Formula(
    "row groups while all are read",
    "maximum(minimum(16777216, last_prompts * dimensions * value_bytes),"
    " minimum(16777216, (prompts - last_prompts) * dimensions * value_bytes)"
    " - last_prompts * dimensions * value_bytes)",
    category="buffers",
    source=PIPELINE + ": row groups of 16 MiB; measured",
    why="Memory is taken as it is filled: of two row groups that are there the second is not "
    "copied yet, so one is beside the embeddings when all are; or one of the chunk before, while "
    "the last is still to come.",
)
PICKED = Formula(
    "sampled vectors of a chunk",
    "maximum(prompts % minimum(chunk_prompts, prompts), minimum(chunk_prompts, prompts)"
    " - prompts % minimum(chunk_prompts, prompts)) * training_prompts // prompts * dimensions"
    " * value_bytes",
    category="buffers",
    source=PIPELINE + "; measured",
    why="Those of a chunk that are in the sample are copied out of it; the sample is full when the "
    "last chunk's are, or short of them when those of the one before are.",
)
EMBEDDINGS = Formula(
    "embeddings",
    "prompts * dimensions * value_bytes",
    category="buffers",
    source=PIPELINE,
    why="All vectors in one array.",
)
SECOND_ARRAY = Formula(
    "second array of embeddings",
    "prompts * dimensions * 4",
    category="buffers",
    source=DOCUMENT + "; 2.00 × measured in np.concatenate and in the division by norms",
    why="Batches and the array made of them exist together, then that array and the normalised.",
)
THREAD_BLOCKS = Formula(
    "blocks of threads",
    "2 * 256 * dimensions * 8 * minimum(cores, ceil_div(minimum(queries, prompts), 256))",
    category="buffers",
    source=SKLEARN + ": 256 rows of each side a thread, cast to float64",
    why="Brute force multiplies blocks of 256 rows in float64, in each thread.",
)
DISTANCE_BLOCK = Formula(
    "block of distances",
    "minimum(queries, 4096) * minimum(searched, 1024) * 4",
    category="buffers",
    source=FAISS + ": distance_compute_blas_query_bs 4096, database_bs 1024",
    why="FAISS multiplies 4,096 queries with 1,024 vectors at a time.",
)
QUERIES = Formula(
    "queries of a part",
    "copies * queries * dimensions * 4",
    category="buffers",
    source=PIPELINE,
    why="The prompts whose neighbours are looked for, in fp32 where they are not held so; read "
    "from chunks, they are there with those before.",
)
FOUND = Formula(
    "neighbours of a part",
    "queries * (neighbours + 1) * neighbour_bytes",
    category="buffers",
    source=PIPELINE + ": a chunk's, those before, both joined (twice), their order, the nearest; "
    "of an index its squares in fp32 twice and their roots, then all without the prompt itself",
    why="Distances and places are eight bytes each: there seven times while chunks are merged, "
    "two and a half times where an index answers, once when it has.",
)
CENTRES = Formula(
    "centres of the lists",
    "2 * lists * dimensions * 4",
    category="buffers",
    source=FAISS + "; " + PIPELINE,
    why="The centres as they were read, and the flat index that finds the nearest of them.",
)
SAMPLE = Formula(
    "vectors that train the lists",
    "training_prompts * dimensions * 4",
    category="buffers",
    source=PIPELINE,
    why="k-means sees a sample, in fp32.",
)
KMEANS = Formula(
    "lists of the sample",
    "training_prompts * 12 + 3 * lists * dimensions * 4",
    category="buffers",
    source="FAISS 1.15.1 Clustering.cpp (read); measured",
    why="Each sampled vector's list and distance; centres, those of the index, and their copy.",
)
LISTS = Formula(
    "inverted lists",
    "prompts * (dimensions * value_bytes + 8) + lists * 4096",
    category="buffers",
    source=FAISS + ": code and 8 bytes of id a vector; each list is memory of its own, in pages",
    why="An IVF index holds every vector once more, sorted into lists.",
)
PROBED = Formula(
    "lists of the queries",
    "queries * probes * 12",
    category="buffers",
    source=FAISS,
    why="Which lists each query visits, and how far they are.",
)
WEIGHING = Formula(
    "weights, keys and their table",
    "prompts * weighing_bytes",
    category="buffers",
    source=PIPELINE + "; measured",
    why="Distances, weights, and a key for each prompt that tells whether weights are stale.",
)

RAW_DISK = Formula(
    "embeddings in fp32",
    "prompts * dimensions * 4",
    category="buffers",
    source="Parquet without compression: 0.1% more at most, measured",
    why="Every value in four bytes.",
)
HALF_DISK = Formula(
    "embeddings in fp16",
    "prompts * dimensions * 2",
    category="buffers",
    source="Parquet without compression: 0.1% more at most, measured",
    why="Every value in two bytes.",
)
COMPRESSED_DISK = Formula(
    "embeddings, compressed",
    "prompts * dimensions * value_bytes * kept_thousandths // 1000",
    category="buffers",
    source="Parquet with zstd, measured on random directions; a run measures its own embeddings",
    why="A compressor finds sign and mantissa without a pattern, and little to save in exponents.",
    ignores="prompts that are there twice",
)
RESULT_DISK = Formula(
    "neighbours and weights",
    "prompts * (neighbours * 16 + 52)",
    category="buffers",
    source=PIPELINE,
    why="Distance and place of each neighbour; place, key, distance and weight of each prompt.",
)

EMBED_SECONDS = Rate(
    "embedding prompts",
    "prompts * seconds_a_prompt",
    unit="seconds",
    source="a calibration's rate",
    why="What one prompt took in a sample of them, times all.",
)
EMBED_FORWARD_SECONDS = Rate(
    "embedding forwards",
    "prompts * prompt_tokens * flops_a_token / flops_per_second",
    unit="seconds",
    source="Kaplan et al. 2020 (arXiv 2001.08361), section 2.1; the rate's own source stands by it",
    why="One forward of every prompt at the longest.",
    ignores="that most prompts are shorter than the longest",
)
PAIRS_SECONDS = Rate(
    "all distances",
    "prompts * prompts * dimensions * seconds_a_product + read_bytes * seconds_a_read_byte",
    unit="seconds",
    source="brute force: a product and a sum for each pair of prompts and dimension",
    why="2·N²·d operations: every prompt meets every other. Streamed, all vectors are read for "
    "each part of the prompts.",
    ignores="a disk that is slower than the system's cache of it",
)
READ_SECONDS = Rate(
    "reading embeddings",
    "prompts * dimensions * value_bytes * seconds_a_read_byte",
    unit="seconds",
    source=PIPELINE,
    why="Chunks are mapped and copied into one array.",
    ignores="a disk that is slower than the system's cache of it",
)
KMEANS_SECONDS = Rate(
    "training the lists",
    "10 * training_prompts * lists * dimensions * seconds_a_product",
    unit="seconds",
    source="FAISS 1.15.1 Clustering.cpp: ten rounds of k-means at most",
    why="In each round every sampled vector meets every centre.",
    ignores="that k-means ends when its objective stands still: after 7 rounds on vectors without "
    "structure, measured; the first choice of centres, and splitting empty lists",
)
ASSIGN_SECONDS = Rate(
    "assigning prompts to lists",
    "prompts * dimensions * (lists * seconds_a_product"
    " + value_bytes * (2 * seconds_a_read_byte + seconds_an_added_byte))",
    unit="seconds",
    source="FAISS IndexIVF: a flat search over the centres; " + PIPELINE,
    why="Every prompt meets every centre once. Chunks are read for that and again to fill the "
    "lists, into which each vector is copied.",
    ignores="a disk that is slower than the system's cache of it",
)
PROBES_SECONDS = Rate(
    "searching the lists",
    "prompts * (lists * dimensions * seconds_a_product"
    " + prompts * probes / lists * dimensions * seconds_a_scanned_product)"
    " + read_bytes * seconds_a_read_byte",
    unit="seconds",
    source="FAISS IndexIVF: a search over the centres, then the probed lists one by one",
    why="Every prompt is read, meets every centre, then the vectors of its probed lists.",
    ignores="that lists differ in length, and a prompt's own list is longer than the mean",
)
