"""Packed directories."""
