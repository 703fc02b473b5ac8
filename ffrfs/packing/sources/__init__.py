"""What is packed: directories, archives and packs, walked, selected, ordered, listed.

Not here: writing packs (ffrfs.packing).
"""
