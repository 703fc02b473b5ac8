"""Hostile files, against all code that opens them.

The native tests have files of their own (tests/native/*/*_hostile_test.cc); tests/fuzz finds more.
"""
