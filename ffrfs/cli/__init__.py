"""The command `ffrfs`: arguments to one call, its outcome to lines and an exit status.

Each command is a module with its help, `add_arguments(parser)` and `run(args)`; main.py finds it,
and turns exceptions into one line and a status. Commands share the other modules: the parser,
options, output, opening a pack. Only this room prints. All of it runs in the main thread.
"""
