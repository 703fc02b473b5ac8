"""Making packs: directories and archives, walked, selected, ordered, written, in shards too.

Not here: reading packs (ffrfs.folder), the bytes of records (ffrfs._native.Writer), printing
(ffrfs.cli).
"""
