"""Which decoders have a token classifier, beside the library's own table."""

from transformers.models.auto import modeling_auto

from planner.catalog.classifiers import TOKEN_CLASSIFIERS


def test_it_is_what_transformers_has() -> None:
    causal = set(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    assert causal & set(modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES) == (
        TOKEN_CLASSIFIERS
    )
