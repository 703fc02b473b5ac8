"""What `ffrfs top` shows: mounts at work, asked once a second, drawn on a terminal.

One thread. Nothing is printed here but on the screen that cli/top.py gives (screen.py).
"""
