"""Tests of the adapters: PyTorch, Ray, Dask, and the names of other libraries."""
