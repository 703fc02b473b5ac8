"""Tests of Example messages, and of the features of files."""
