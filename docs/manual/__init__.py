"""Makes manual pages and completions from the argument parser, for `make manual`.

pages.py and completions.py use what arguments.py reads; sections.py has what no parser knows.
The output is committed in ffrfs/service, and installed from there: a user needs none of this,
and the internals of another Python's argparse do not matter.
"""
