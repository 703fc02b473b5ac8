"""Tests of the answers that programs get from a mount, over every engine."""
