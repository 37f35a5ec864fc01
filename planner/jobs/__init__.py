"""Work in processes of its own. No torch.

A job has a folder, which outlives whoever began it: ``storage`` says where folders are, ``folder``
what one holds, ``processes`` begins, finds and ends them, ``supervisor`` sees to one, ``turns``
queues them in front of a device, ``following`` tells what happens, ``spare`` brings a result past
a full disk. A ``worker`` is asked over a pipe, and kept for the next question. ``host_memory`` and
``strict`` bound what a process and its JSON may hold.
"""
