"""Tests of the viewer in a browser."""
