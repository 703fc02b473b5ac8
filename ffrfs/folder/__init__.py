"""The packed folder: a folder tree inside an FFRecord file.

Writing: source.py finds what to pack (selection.py: and what not), index.py writes it
down as the format wants it, pack.py does the rest. Reading: tree.py is a file's tree;
packed.py is the reference's API over it; extract.py and verify.py read all of it.

Not here: records (ffrfs.record), mounts (ffrfs.mount), printing (ffrfs.cli).
"""
