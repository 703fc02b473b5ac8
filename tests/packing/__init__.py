"""Making packs."""
