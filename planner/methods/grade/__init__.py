"""GRADE: responses as soft tokens, so that a reward's gradient reaches the policy.

Each generated token is a Gumbel-softmax mixture over the vocabulary, fed back as a mixture of
embeddings; the graph of every generated token stays alive until the backward. The switches
(``grade_*``) are those of documents 001 and 002.
"""
