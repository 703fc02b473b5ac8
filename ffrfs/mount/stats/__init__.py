"""Figures out of an engine's counters: times, rates, slowest requests, Prometheus's text.

Not here: who asks for them (daemon/statistics.py, daemon/metrics_file.py, cli).
"""
