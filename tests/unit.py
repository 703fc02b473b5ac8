"""A systemd unit, as far as tests need it to run its commands without systemd.

systemd.service(5) describes this under "Command lines": a line is split into words, quotes
are removed, and specifiers (%i) are replaced. When the command is run, `${NAME}` becomes the
variable's value, and the word `$NAME` becomes as many words as its value has.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

# Prefixes of an Exec line: a failure is ignored, no expansion, full privileges ...
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
            else:  # an empty assignment drops earlier ones
                values.clear()

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        instance: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Read a unit; `environment` has the variables that its EnvironmentFile would set.

        In a template of the source tree, @PYTHON@ becomes this interpreter.
        """
        text = Path(path).read_text(encoding="utf-8").replace(_PYTHON, sys.executable)
        return cls(Path(path).name, text, instance, environment)

    def values(self, key: str, section: str = "Service") -> list[str]:
        """Return all values of a setting, with specifiers replaced."""
        return [self._specify(value) for value in self._settings.get((section, key), [])]

    def setting(self, key: str, section: str = "Service") -> str:
        """Return the value of a setting; if it has several, the last one."""
        return self.values(key, section)[-1]

    def keys(self, section: str = "Service") -> list[str]:
        return [key for of, key in self._settings if of == section]

    def commands(self, key: str) -> list[list[str]]:
        """Return the commands of ExecStart= and similar settings: the arguments of each."""
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
        """Replace %i and other specifiers; an unknown one raises KeyError."""
        known = {"i": self.instance, "I": self.instance.replace("-", "/"), "%": "%", "t": "/run"}
        known["n"] = self.name.replace("@.", f"@{self.instance}.")
        return re.sub("%(.)", lambda match: known[match[1]], text)


def _assignments(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (section, key, value) of each; a backslash at a line's end continues its value."""
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
