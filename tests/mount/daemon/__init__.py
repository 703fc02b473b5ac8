"""The daemon: signals, sockets, limits, services."""
