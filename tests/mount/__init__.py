"""Tests of ffrfs/mount, in one folder for each of its packages, and the helpers they share."""
