"""The engines, which answer the kernel; their common interface, the worker, the counters.

trio runs here (the engines' tasks); pyfuse3 is imported by its engine alone.
"""
