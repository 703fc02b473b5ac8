"""The commands and functions that talk to a mount's daemon."""
