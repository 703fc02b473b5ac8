"""What only shows after many mounts, or under many readers.

Every test runs for seconds, and for minutes in `make soak` (scale.py). A package, so that
its conftest.py has a name of its own and can stand beside that of the mount tests.
"""
