"""Files that mean harm, against all that opens them.

The native tests have their own (tests/native/*/*_hostile_test.cc); tests/fuzz finds more.
"""
