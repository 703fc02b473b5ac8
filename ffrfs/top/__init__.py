"""The screen of `ffrfs top`: mounts at work, asked once a second, drawn on a terminal.

It has one thread, and writes only to the screen of cli/top.py (screen.py).
"""
