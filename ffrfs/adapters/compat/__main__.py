"""`python -m ffrfs.compat SCRIPT [ARGUMENT...]`: runs a script that gets ffrfs as `ffrecord`.

It runs as Python itself would run it: its directory comes first in sys.path, its arguments are
in sys.argv, and its exit status is that of the process. Processes that it starts find the
module too, by PYTHONPATH.
"""

from __future__ import annotations

import argparse
import builtins
import io
import os
import pkgutil
import runpy
import sys
import types
from typing import Any

from ffrfs.adapters.compat import install
from ffrfs.errors import FfrfsError, describe


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m ffrfs.compat",
        description="Run a Python script that imports ffrecord, with ffrfs in its place.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "-m", dest="is_module", action="store_true", help="SCRIPT is the name of a module"
    )
    parser.add_argument("script", metavar="SCRIPT", help="the script, a file")
    parser.add_argument(
        "arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="its own arguments"
    ).required = False
    args = parser.parse_args()
    if not args.is_module:
        if not os.path.exists(args.script):
            parser.exit(2, f"ffrfs: {args.script}: there is no such script\n")
        if not sys.flags.safe_path:  # instead of the current directory, which `-m` put there
            sys.path[0] = os.path.dirname(os.path.realpath(args.script))
    try:
        directory = install("ffrecord")
    except FfrfsError as error:
        parser.exit(1, f"ffrfs: {describe(error)}\n")
    _add_to_environment(directory)
    sys.argv = [args.script, *args.arguments]
    _run(args.script, args.is_module)


def _run(script: str, is_module: bool) -> None:
    """Run it in a module that stays: its threads and exit handlers go on after its last line."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    python: Any = runpy  # with its functions for Python itself: others take the module away
    if is_module:
        python._run_module_as_main(script)
    elif pkgutil.get_importer(script) is not None:  # a directory or an archive with a __main__.py
        sys.path.insert(0, script)
        python._run_module_as_main("__main__", alter_argv=False)
    else:
        with io.open_code(os.path.abspath(script)) as file:
            data = file.read()
        code = pkgutil.read_code(io.BytesIO(data))  # of a .pyc
        code = code or compile(data, script, "exec", dont_inherit=True)
        python._run_code(code, main.__dict__, mod_name="__main__", script_name=script)


def _add_to_environment(directory: str) -> None:
    known = os.environ.get("PYTHONPATH")
    if directory not in (known or "").split(os.pathsep):
        os.environ["PYTHONPATH"] = f"{known}{os.pathsep}{directory}" if known else directory


if __name__ == "__main__":
    main()
