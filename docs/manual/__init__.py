"""Manual pages and completions, out of the argument parser: what `make manual` runs.

pages.py and completions.py make theirs of what arguments.py reads; sections.py has what no parser
knows. What comes out is committed in ffrfs/service, and installed from there: a user needs none
of this, and no parser of another Python is looked into.
"""
