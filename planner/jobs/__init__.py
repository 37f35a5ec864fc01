"""Work in processes of its own: a folder each, which outlives whoever began it. No torch.

``storage`` says where folders are, ``folder`` what one holds, ``processes`` begins, finds and ends
them, ``turns`` queues them in front of a device, ``host_memory`` and ``strict`` bound what a
process and its JSON may hold.
"""
