"""Making packs, in shards too, here or in a bucket.

Not here: what is packed (ffrfs.packing.sources), reading packs (ffrfs.folder), the bytes of
records (ffrfs._native.Writer), printing (ffrfs.cli).
"""
