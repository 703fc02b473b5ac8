"""--config of `ffrfs mount` and `ffrfs umount`: arguments that the file has may be left out."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any


class ConfigOption(argparse.Action):
    """Stores the file, and lets arguments be left out that it may have."""

    # Arguments, or groups of which one is needed: what has `required`.
    def __init__(self, *, may_be_left_out: Iterable[Any], **rest: Any) -> None:  # noqa: ANN401
        super().__init__(**rest)
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
