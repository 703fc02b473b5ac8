"""What makes ffrfs a service of its machine: units, helpers of mount(8), manual, completions.

Who does what: installation.py knows which files there are, and where they belong; templates.py
reads those of systemd/; owned_file.py tells ours from others'. manual.py and completions.py make
theirs out of the argument parser, which arguments.py reads; sections.py has what it does not
know.

Not here: mounting (ffrfs.mount), printing (ffrfs.cli).
"""
