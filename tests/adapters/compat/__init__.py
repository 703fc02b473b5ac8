"""Scripts for other libraries, run by ffrfs."""
