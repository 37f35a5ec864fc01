"""One formula per physical thing: parameters, state, activations, logits, FLOPs, traffic. No torch.

Each is an expression with its meaning and source; the registry is what the Formulas page prints.
"""
