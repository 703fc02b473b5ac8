"""Fuzz targets (C++), their seeds, and the program that runs them."""
