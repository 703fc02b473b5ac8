"""DLIO, the engine of MLPerf Storage, on each contender (__main__.py)."""
