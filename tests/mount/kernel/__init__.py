"""Mounting, mount points, state."""
