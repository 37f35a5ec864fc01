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
    why="Prompts are read from their file by offset; only the offset of each line is kept in "
    "memory.",
)
TEXTS = Formula(
    "prompts as text",
    "prompts * prompt_tokens * 4",
    category="buffers",
    source=DOCUMENT + "; about four characters a token "
    "(https://help.openai.com/en/articles/4936856, read 2026-11-22)",
    why="The audited document's code keeps every prompt in memory as text.",
    ignores="that most prompts are shorter than the longest",
)
TOKENS = Formula(
    "token ids of a chunk",
    "minimum(chunk_prompts, prompts) * (prompt_tokens * 4 + 112)",
    category="buffers",
    source=PIPELINE + ": four bytes a token, and 112 of each prompt's array",
    why="All prompts of a chunk are tokenized at once, so that a batch can take prompts of similar "
    "length.",
    ignores="that most prompts are shorter than the longest, and the tokenizer's own memory",
)
BATCH_LOGITS = Formula(
    "logits of a batch",
    "batch_size * prompt_tokens * vocabulary * value_bytes",
    category="logits",
    source=DOCUMENT,
    why="The audited document's code holds a batch's logits of all tokens (batch × tokens × "
    "vocabulary) before it takes their mean.",
)
POOLED_LOGITS = Formula(
    "mean logits of a batch",
    "batch_size * vocabulary * (value_bytes + 4)",
    category="logits",
    source=PIPELINE + ": logits are linear in hidden states, so the mean's logits are the mean",
    why="The head gets one mean hidden state per prompt instead of one hidden state per token.",
)
CHECKED_LOGITS = Formula(
    "logits of one prompt, compared",
    "prompt_tokens * vocabulary * (8 + 2 * value_bytes)",
    category="logits",
    source=PIPELINE + ": whether a model's logits are its head of its hidden states",
    why="On the first prompt, the model's own logits are compared with those of its head applied "
    "to its hidden states.",
    ignores="that the first prompt may be shorter than the longest",
)
CHUNK = Formula(
    "vectors of a chunk",
    "minimum(chunk_prompts, prompts) * dimensions * 4",
    category="buffers",
    source=PIPELINE,
    why="Embeddings are computed, read and searched in fp32, one chunk at a time.",
)
STORED_CHUNK = Formula(
    "a chunk as it is stored",
    "minimum(chunk_prompts, prompts) * dimensions * value_bytes",
    category="buffers",
    source=PIPELINE,
    why="While a chunk is read or written, it is in memory twice: in the stored dtype and in the "
    "working dtype.",
)
GROUPS = Formula(
    "row groups of Parquet files",
    "minimum(33554432, minimum(chunk_prompts, prompts) * dimensions * value_bytes)",
    category="buffers",
    source=PIPELINE + ": 16 MiB a row group; measured",
    why="Files are memory-mapped; while one row group becomes an array, the previous row group's "
    "array is still in memory.",
)
READ_GROUPS = Formula(
    "row groups while all are read",
    "maximum(minimum(16777216, last_prompts * dimensions * value_bytes),"
    " minimum(16777216, (prompts - last_prompts) * dimensions * value_bytes)"
    " - last_prompts * dimensions * value_bytes)",
    category="buffers",
    source=PIPELINE + ": row groups of 16 MiB; measured",
    why="The embeddings' array takes memory only as it is filled. Of two row groups in memory the "
    "second is not copied yet, so the peak has one row group of the last chunk beside all "
    "embeddings, or one of the chunk before while the last chunk is still missing.",
)
PICKED = Formula(
    "sampled vectors of a chunk",
    "maximum(prompts % minimum(chunk_prompts, prompts), minimum(chunk_prompts, prompts)"
    " - prompts % minimum(chunk_prompts, prompts)) * training_prompts // prompts * dimensions"
    " * value_bytes",
    category="buffers",
    source=PIPELINE + "; measured",
    why="A chunk's sampled vectors are copied out of it. The peak comes at the last chunk, when "
    "the sample is complete, or at the chunk before, when only the last chunk's vectors are "
    "missing.",
)
EMBEDDINGS = Formula(
    "embeddings",
    "prompts * dimensions * value_bytes",
    category="buffers",
    source=PIPELINE,
    why="All embeddings are in one array.",
)
SECOND_ARRAY = Formula(
    "second array of embeddings",
    "prompts * dimensions * 4",
    category="buffers",
    source=DOCUMENT + "; 2.00 × measured in np.concatenate and in the division by norms",
    why="The batches and the array concatenated from them exist together, then that array and its "
    "normalised copy.",
)
THREAD_BLOCKS = Formula(
    "blocks of threads",
    "2 * 256 * dimensions * 8 * minimum(cores, ceil_div(minimum(queries, prompts), 256))",
    category="buffers",
    source=SKLEARN + ": 256 rows of each side a thread, cast to float64",
    why="Each thread of the brute-force search multiplies blocks of 256 rows in float64.",
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
    why="Embeddings of the prompts whose neighbours are searched, cast to fp32 if they are stored "
    "in another dtype. When they are read from chunks, those of the previous part are still in "
    "memory.",
)
FOUND = Formula(
    "neighbours of a part",
    "queries * (neighbours + 1) * neighbour_bytes",
    category="buffers",
    source=PIPELINE + ": a chunk's, those before, both joined (twice), their order, the nearest; "
    "of an index its squares in fp32 twice and their roots, then all without the prompt itself",
    why="Each distance and each neighbour's position takes eight bytes. Memory holds them seven "
    "times while chunks are merged, two and a half times during an index search, and once after "
    "it.",
)
CENTRES = Formula(
    "centres of the lists",
    "2 * lists * dimensions * 4",
    category="buffers",
    source=FAISS + "; " + PIPELINE,
    why="The k-means centres as they were read, and a copy of them in the flat index that finds "
    "the nearest centre.",
)
SAMPLE = Formula(
    "vectors that train the lists",
    "training_prompts * dimensions * 4",
    category="buffers",
    source=PIPELINE,
    why="k-means runs on a sample of the embeddings, in fp32.",
)
KMEANS = Formula(
    "lists of the sample",
    "training_prompts * 12 + 3 * lists * dimensions * 4",
    category="buffers",
    source="FAISS 1.15.1 Clustering.cpp (read); measured",
    why="Each sampled vector's list number and distance; the k-means centres, those in the index, "
    "and one more copy.",
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
    why="The lists that each query visits, and the query's distances to their centres.",
)
WEIGHING = Formula(
    "weights, keys and their table",
    "prompts * weighing_bytes",
    category="buffers",
    source=PIPELINE + "; measured",
    why="Each prompt's distance and weight, and a key that shows whether the weight is stale.",
)

RAW_DISK = Formula(
    "embeddings in fp32",
    "prompts * dimensions * 4",
    category="buffers",
    source="Parquet without compression: 0.1% more at most, measured",
    why="Every value of an embedding takes four bytes.",
)
HALF_DISK = Formula(
    "embeddings in fp16",
    "prompts * dimensions * 2",
    category="buffers",
    source="Parquet without compression: 0.1% more at most, measured",
    why="Every value of an embedding takes two bytes.",
)
COMPRESSED_DISK = Formula(
    "embeddings, compressed",
    "prompts * dimensions * value_bytes * kept_thousandths // 1000",
    category="buffers",
    source="Parquet with zstd, measured on random directions; a run measures its own embeddings",
    why="A compressor finds no pattern in signs and mantissas and saves only a little on "
    "exponents.",
    ignores="prompts that are there twice",
)
RESULT_DISK = Formula(
    "neighbours and weights",
    "prompts * (neighbours * 16 + 52)",
    category="buffers",
    source=PIPELINE,
    why="Each neighbour's distance and position; each prompt's position, key, distance and weight.",
)

EMBED_SECONDS = Rate(
    "embedding prompts",
    "prompts * seconds_a_prompt",
    unit="seconds",
    source="a calibration's rate",
    why="The time per prompt measured on a sample of prompts, times the number of all prompts.",
)
EMBED_FORWARD_SECONDS = Rate(
    "embedding forwards",
    "prompts * prompt_tokens * flops_a_token / flops_per_second",
    unit="seconds",
    source="Kaplan et al. 2020 (arXiv 2001.08361), section 2.1; the rate's own source stands by it",
    why="One forward pass of every prompt, each counted at the longest prompt's length.",
    ignores="that most prompts are shorter than the longest",
)
PAIRS_SECONDS = Rate(
    "all distances",
    "prompts * prompts * dimensions * seconds_a_product + read_bytes * seconds_a_read_byte",
    unit="seconds",
    source="brute force: a product and a sum for each pair of prompts and dimension",
    why="2·N²·d operations: every prompt is compared with every other. In streaming mode all "
    "embeddings are read again for each part of the prompts.",
    ignores="a disk that is slower than the system's cache of it",
)
READ_SECONDS = Rate(
    "reading embeddings",
    "prompts * dimensions * value_bytes * seconds_a_read_byte",
    unit="seconds",
    source=PIPELINE,
    why="Chunk files are memory-mapped and copied into one array.",
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
    why="Every prompt is compared with every centre once. Chunks are read for this comparison and "
    "again to fill the lists, into which each embedding is copied.",
    ignores="a disk that is slower than the system's cache of it",
)
PROBES_SECONDS = Rate(
    "searching the lists",
    "prompts * (lists * dimensions * seconds_a_product"
    " + prompts * probes / lists * dimensions * seconds_a_scanned_product)"
    " + read_bytes * seconds_a_read_byte",
    unit="seconds",
    source="FAISS IndexIVF: a search over the centres, then the probed lists one by one",
    why="Every prompt is read and compared with every centre, then with the embeddings in its "
    "probed lists.",
    ignores="that lists differ in length, and a prompt's own list is longer than the mean",
)
