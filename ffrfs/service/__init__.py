"""What makes ffrfs a service of its machine: units, helpers of mount(8), manual, completions.

Who does what: installation.py knows which files there are, and where they belong; templates.py
reads those of systemd/; owned_file.py tells ours from others'. Those of man/ and completions/ are
made out of the argument parser, by docs/write_manual.py.

Not here: mounting (ffrfs.mount), printing (ffrfs.cli).
"""
