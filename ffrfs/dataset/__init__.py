"""Data sets of any kind, by one call: info, verify, extract. What `ffrfs` offers to programs.

Each function finds out what a path is, a pack, a pack set, FFRecord or TFRecord, and gives it
to the room that reads that kind. Results are dicts with the keys of the commands' --json.

Not here: conversion (ffrfs.convert), statistics of mounts (ffrfs.mount.client), printing
(ffrfs.cli).
"""
