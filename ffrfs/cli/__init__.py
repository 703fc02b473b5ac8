"""The command `ffrfs`: arguments to one call, its outcome to lines and an exit status.

Each command is a module with `add_parser(subparsers)` and `run(args)`; main.py finds it,
and turns exceptions into one line and a status. What they share is in ffrfs/console.
"""
