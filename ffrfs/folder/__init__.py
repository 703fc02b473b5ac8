"""Reads packs: a directory tree inside an FFRecord file.

tree.py is the tree of one pack or of several (links.py follows symbolic links). packed.py is the
reference's API and a mapping over it, with contents_view.py, packed_file.py, path_pattern.py
and walk.py. extract.py, verify.py and info.py read all of it. sidecar.py makes indexes for
packs without one.

Not here: writing (ffrfs.packing), records (ffrfs.record), mounts (ffrfs.mount), printing
(ffrfs.cli).
"""
