"""What autograd keeps of a forward pass, and what a layer needs while it runs.

Read in this order: ``workload`` (what a pass is run on), ``kinds`` (the sizes tensors
can have), ``tape`` (storages, their lives, and torch's backward order), ``operations``,
``norms``, ``linears``, ``kernels``, ``attention`` and ``decoder`` (the layers, written as
the modeling files are), ``compiled``, ``layers`` and ``model`` (the terms).
"""
