"""A cache of blocks of large objects: persistent files that processes share, or memory.

The fetcher fills it (ffrfs.remote); readers get read-only descriptors. Readers verify bytes
from a cache like any others: a cache may lose blocks, and no reader trusts it.

Not here: where the bytes come from (ffrfs.remote), reading them (native/remote).
"""
