"""Tests of the project itself: order of rooms, style, documents, builds, programs."""
