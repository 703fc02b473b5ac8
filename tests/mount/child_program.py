"""The child's side of child.py: calls functions, and answers over standard output."""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
import struct
import sys
from collections.abc import Iterator
from typing import Any

LENGTH = struct.Struct("<I")  # precedes each message


def _receive_message() -> Any:
    header = sys.stdin.buffer.read(LENGTH.size)
    if len(header) < LENGTH.size:
        sys.exit(0)
    return pickle.loads(sys.stdin.buffer.read(*LENGTH.unpack(header)))


def _answers(
    module: str, name: str, arguments: tuple[Any, ...], user_id: int | None
) -> Iterator[Any]:
    function = getattr(importlib.import_module(module), name)
    if user_id is not None:
        os.setgroups([])
        os.setresgid(user_id, user_id, user_id)
        os.setresuid(user_id, user_id, user_id)
    if inspect.isgeneratorfunction(function):
        yield from function(*arguments)
    else:
        yield function(*arguments)


def main() -> None:
    answers = _answers(*_receive_message())
    while True:
        other = _receive_message()
        if other is not None:
            answers = _answers(*other)
        try:
            answer = (True, next(answers))
        except StopIteration:
            answer = (True, None)
        except Exception as error:
            answer = (False, error)
        data = pickle.dumps(answer)
        sys.stdout.buffer.write(LENGTH.pack(len(data)) + data)
        sys.stdout.buffer.flush()
