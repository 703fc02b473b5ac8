"""The figures of a mount."""
