"""Units, manual pages and completions, which are installed."""
