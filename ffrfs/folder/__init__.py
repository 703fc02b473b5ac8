"""The packed folder: a folder tree inside an FFRecord file.

Writing: source.py finds what to pack (selection.py: and what not), or archive.py does;
pack.py does the rest, pack_set_writer.py for several packs. Reading: tree.py is the tree of one
pack or of several (links.py: where links lead); packed.py is the reference's API over it;
extract.py and verify.py read all of it. sidecar.py: indexes of packs that carry none.

Not here: records (ffrfs.record), mounts (ffrfs.mount), printing (ffrfs.cli).
"""
