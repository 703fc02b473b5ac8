"""A systemd unit, as far as a test needs to run its commands where systemd is not.

What is done to a command line stands in systemd.service(5) under "Command lines": it is
split into words, quotes taken off; specifiers (%i) are replaced; and when it is run,
`${NAME}` becomes the variable's value, and the word `$NAME` as many words as its value has.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

# Of an Exec line: a failure is ignored, no expansion, full privileges ...
_PREFIXES = "-@:+!"
_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)\})")
_PYTHON = "@PYTHON@"  # in the templates of systemd/, until they are installed


class Unit:
    """One unit file, or one instance of a template."""

    def __init__(
        self, name: str, text: str, instance: str = "", environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.instance = instance
        self.environment = dict(environment or {})
        self._settings: dict[tuple[str, str], list[str]] = {}
        for section, key, value in _assignments(text):
            values = self._settings.setdefault((section, key), [])
            if value:
                values.append(value)
            else:  # an empty assignment drops those before it
                values.clear()

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        instance: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Read a unit; `environment` is what its EnvironmentFile would say.

        A template of the source tree gets this interpreter.
        """
        text = Path(path).read_text(encoding="utf-8").replace(_PYTHON, sys.executable)
        return cls(Path(path).name, text, instance, environment)

    def values(self, key: str, section: str = "Service") -> list[str]:
        """All that is assigned to a setting, specifiers replaced."""
        return [self._specify(value) for value in self._settings.get((section, key), [])]

    def setting(self, key: str, section: str = "Service") -> str:
        """The value of a setting that is given once, or the last one."""
        return self.values(key, section)[-1]

    def keys(self, section: str = "Service") -> list[str]:
        return [key for of, key in self._settings if of == section]

    def commands(self, key: str) -> list[list[str]]:
        """The commands of ExecStart= and its like: the arguments of each."""
        return [list(self._words(line)) for line in self._settings.get(("Service", key), [])]

    def _words(self, line: str) -> Iterator[str]:
        for word in map(self._specify, shlex.split(line.lstrip(_PREFIXES))):
            if re.fullmatch(r"\$\w+", word):
                yield from shlex.split(self.environment.get(word[1:], ""))
            else:
                yield _VARIABLE.sub(self._value, word)

    def _value(self, match: re.Match[str]) -> str:
        return "$" if match[1] is None else self.environment.get(match[1], "")

    def _specify(self, text: str) -> str:
        """Replace %i and its like; one that is not known here is a KeyError."""
        known = {"i": self.instance, "I": self.instance.replace("-", "/"), "%": "%", "t": "/run"}
        known["n"] = self.name.replace("@.", f"@{self.instance}.")
        return re.sub("%(.)", lambda match: known[match[1]], text)


def _assignments(text: str) -> Iterator[tuple[str, str, str]]:
    """(section, key, value) of each; a backslash at its end goes on with the next line."""
    section = before = ""
    for line in text.splitlines():
        if line.lstrip()[:1] in ("#", ";"):
            continue  # also between the lines of one value
        if line.endswith("\\"):
            before += line[:-1] + " "
            continue
        whole, before = (before + line).strip(), ""
        if whole.startswith("["):
            section = whole.strip("[]")
        elif whole:
            key, _, value = whole.partition("=")
            yield section, key.strip(), value.strip()
