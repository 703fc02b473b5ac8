"""Fuzz targets (C++), and what runs them."""
