"""What is thin and above all: PyTorch, Ray, Dask, and the names of other libraries."""
