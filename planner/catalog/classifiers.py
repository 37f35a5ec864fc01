"""Which decoders transformers builds a token classifier of: what trainers make a critic from.

Model types under both ``AutoModelForCausalLM`` and ``AutoModelForTokenClassification`` of
transformers 5.23; a test compares them with the library's own table.
"""

TOKEN_CLASSIFIERS = frozenset(
    (
        "apertus", "arcee", "axk1", "axk2", "bert", "big_bird", "biogpt", "bloom", "camembert",
        "data2vec-text", "deepseek_v3", "diffllama", "electra", "ernie", "exaone4", "falcon",
        "gemma", "gemma2", "glm", "glm4", "gpt-sw3", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox",
        "gpt_oss", "helium", "llama", "megatron-bert", "minimax", "ministral", "ministral3",
        "mistral", "mixtral", "mpt", "nemotron", "persimmon", "phi", "phi3", "qwen2", "qwen2_moe",
        "qwen3", "qwen3_5", "qwen3_moe", "qwen3_next", "rembert", "roberta", "roberta-prelayernorm",
        "roc_bert", "roformer", "seed_oss", "smollm3", "stablelm", "starcoder2", "xlm",
        "xlm-roberta", "xlm-roberta-xl", "xlnet", "xmod",
    )
)
