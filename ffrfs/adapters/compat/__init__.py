"""Scripts that were written for HFAiLab/ffrecord run unedited: they import ffrfs as `ffrecord`.

    python -m ffrfs.compat train.py --epochs 3      # or: -m torch.distributed.run train.py
    ffrfs.compat.install("ffrecord")                # or this, before the first import of it

`original-names/` holds a package under the original's name, module by module; installing puts
that directory at the end of sys.path. So other processes that multiprocessing starts find
it too, and importlib finds the attributes that any package has.

Not here: running scripts (__main__.py). Concurrency: that of sys.path; install once, early.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys

from ffrfs.errors import InstallError, OptionError

_ORIGINAL_NAMES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "original-names")
_NAMES = ("ffrecord",)


def install(name: str = "ffrecord") -> str:
    """Let `import NAME` give ffrfs, from now on in this process; return the directory for it.

    install() imports nothing, and a second call changes nothing. The directory in PYTHONPATH does
    the same for any other process. Raises OptionError for an unknown name, InstallError if the
    original itself is installed or was imported: it is never shadowed.
    """
    if name not in _NAMES:
        raise OptionError(f"there is no compatibility module {name!r}; there is: {_NAMES[0]}")
    others = [path for path in sys.path if path != _ORIGINAL_NAMES]
    found = _origin(name, others)
    if found is not None:
        raise InstallError(
            f"{name} itself is installed ({found}), and would be hidden or used instead of "
            f"ffrfs: uninstall it, or take an environment without it"
        )
    if _ORIGINAL_NAMES not in sys.path:
        sys.path.append(_ORIGINAL_NAMES)
    return _ORIGINAL_NAMES


def _origin(name: str, path: list[str]) -> str | None:
    """Return the place of the original, if it was imported or can be, else None."""
    loaded = getattr(sys.modules.get(name), "__file__", None)
    if name in sys.modules and not str(loaded).startswith(_ORIGINAL_NAMES + os.sep):
        return str(loaded or "imported already")
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is None or spec.loader is None:  # a plain directory of that name is not a package
        return None
    return spec.origin or str(spec.loader)
