"""Examples as arrays."""
