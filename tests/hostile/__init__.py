"""Files that mean harm, against all that opens them.

A package, so that its files have names of their own beside those of the other rooms' tests.
The native tests have their own (tests/native/*_hostile_test.cc); tests/fuzz finds more.
"""
