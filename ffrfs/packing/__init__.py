"""Makes packs and sets of packs, on this machine or in a bucket.

Not here: the sources (ffrfs.packing.sources), reading packs (ffrfs.folder), the bytes of
records (ffrfs._native.Writer), printing (ffrfs.cli).
"""
