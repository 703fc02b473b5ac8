"""What answers the kernel: the engines, the front that they share, the worker, its counters.

trio runs here (the engines' tasks); pyfuse3 is imported by its engine alone.
"""
