"""The screen of `ffrfs top`."""
