"""Tests of mounting, mount points and state files."""
