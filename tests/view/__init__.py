"""Tests of the viewer: a real server, and a client of it."""
