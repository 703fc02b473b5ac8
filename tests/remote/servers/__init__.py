"""Real servers on loopback ports of their own, for tests and benchmarks of remote packs.

Each is a context manager that starts the program, waits until it answers, and ends it by its
id. Nothing here is shared between two runs: ports, folders and keys are new each time.
"""
