"""`python -m ffrfs`: the same as the command `ffrfs`."""

import sys

from ffrfs.cli.start import main

if __name__ == "__main__":
    sys.exit(main())
