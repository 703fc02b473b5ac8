"""--config of `ffrfs mount` and `ffrfs umount`: arguments that the file has may be left out."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, Protocol, cast


class Required(Protocol):
    """An argument, or a group of which one is needed."""

    required: bool


class ConfigOption(argparse.Action):
    """Stores the file, and lets arguments be left out that it may have."""

    def __init__(self, *, may_be_left_out: Iterable[Required], **rest: object) -> None:
        super().__init__(**cast("dict[str, Any]", rest))
        self._may_be_left_out = may_be_left_out

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        value: object,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, value)
        for argument in self._may_be_left_out:
            argument.required = False
