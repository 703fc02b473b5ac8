"""Mounts: the rooms of ffrfs/mount, and what their tests share."""
