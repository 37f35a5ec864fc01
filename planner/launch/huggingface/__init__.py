"""Settings of transformers' Trainer, accelerate and DeepSpeed, for every framework built on them.

Names are a table's: the Trainer's own as they are, accelerate's below ``accelerate.``, DeepSpeed's
JSON below ``deepspeed.``. A framework's folder adds its own rows and says where defaults differ.
"""
