"""Functions for data sets of any kind: info, verify, extract. This is the API for programs.

Each function determines the kind of a path, a pack, a pack set, FFRecord or TFRecord, and calls
the room that reads that kind. Results are dicts with the keys of the commands' --json.

Not here: conversion (ffrfs.convert), statistics of mounts (ffrfs.mount.client), printing
(ffrfs.cli).
"""
