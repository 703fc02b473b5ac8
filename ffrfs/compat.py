"""`ffrfs.compat`: other libraries' names for ffrfs (ffrfs/adapters/compat); also a program."""

from ffrfs.adapters import import_as
from ffrfs.adapters.compat import install

__all__ = ["install"]

if __name__ == "__main__":
    from ffrfs.adapters.compat.__main__ import main

    main()
else:
    import_as("ffrfs.compat", "ffrfs.adapters.compat")
