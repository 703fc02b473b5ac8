"""For PyTorch."""
