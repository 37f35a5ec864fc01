"""What starts Hugging Face's trainers and how it names settings: accelerate, torchrun, DeepSpeed.

For every framework that is built on transformers' Trainer. It knows names alone; what they mean
stands in the rows of ``planner/launch/huggingface/``.
"""
