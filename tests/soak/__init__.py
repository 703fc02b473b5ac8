"""Faults that show only after many mounts, or under many readers.

Every test runs for seconds, and for minutes in `make soak` (scale.py).
"""
