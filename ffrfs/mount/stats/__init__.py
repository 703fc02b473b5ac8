"""Statistics from an engine's counters: times, rates, Prometheus's text.

Not here: the users of them (daemon/statistics.py, daemon/metrics_file.py, cli).
"""
