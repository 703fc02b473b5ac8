"""The sources of packing: directories, archives and packs, walked, selected, ordered, listed.

Not here: writing packs (ffrfs.packing).
"""
