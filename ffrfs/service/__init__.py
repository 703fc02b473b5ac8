"""Makes ffrfs a service of its machine: units, helpers of mount(8), manual, completions.

installation.py has the list of files and their places; templates.py reads those of systemd/;
owned_file.py tells our files from others'. docs/write_manual.py makes the files of man/ and
completions/ from the argument parser.

Not here: mounting (ffrfs.mount), printing (ffrfs.cli).
"""
