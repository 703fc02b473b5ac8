"""The daemon, one trio loop: it mounts, serves, answers its control socket, logs, limits memory,
feeds the watchdog, reloads, unmounts.
"""
