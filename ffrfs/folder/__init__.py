"""Reads packs: a directory tree inside an FFRecord file.

tree.py is the tree of one pack or of several (links.py follows symbolic links). packed.py is the
reference's API and a mapping over it, with contents_view.py, packed_file.py, packed_path.py and
path_pattern.py. sidecar.py makes indexes for packs without one.

extract.py, verify.py and info.py are for data sets of any kind: they find out whether a path is
of packs, FFRecord or TFRecord, and their results have the keys of the commands' --json. ranges.py
cuts data sets for other processes, which read the parts with range_reader.py.

Not here: writing (ffrfs.packing), records (ffrfs.record), mounts (ffrfs.mount), printing
(ffrfs.cli).
"""
