"""Finds in the code that a sampler calls why its copy must not be iterated beside it.

The search follows functions, functions nested in them, and the objects that their names refer to:
globals, imports, the attributes of these, items of short lists and dicts, and the object that a
method is bound to. It does not enter torch, NumPy and the standard library, whose global
generators are put back (epoch_order.py).

Concurrency: functions without state.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Iterator, Mapping
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

_NOT_FOLLOWED = sys.stdlib_module_names | {"numpy", "torch", "torchdata"}
_SEEN_MAX = 10_000
_ITEMS_MAX = 100  # of a list or dict that is looked through: a longer one is data
_ATOMS = {bool, bytes, float, int, str}
# A copy that calls these would wait for the copies of other processes, or disturb the originals.
_COLLECTIVE = {"all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce"}
_COLLECTIVE |= {"all_to_all", "all_to_all_single", "barrier", "broadcast", "broadcast_object_list"}
_COLLECTIVE |= {"gather_object", "reduce_scatter", "reduce_scatter_tensor", "scatter_object_list"}
# Other things have these names, too (functools.reduce): only those of torch count.
_COLLECTIVE_OF_TORCH = {"gather", "irecv", "isend", "recv", "reduce", "scatter", "send"}


def obstacle(sampler: object) -> str | None:
    """Return why a copy of `sampler` must not be iterated, or None."""
    kinds = type(sampler).__mro__
    # The sampler exists: the functions that __init__ calls (for a seed of all processes) are not
    # called again.
    waiting = [member for kind in kinds for member in _members(kind, besides="__init__")]
    # A copy shares functions that are attributes, too.
    waiting += _kept(sampler)
    seen = set(map(id, kinds))
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if len(seen) > _SEEN_MAX:
            return "its sampler calls too many functions to look through"
        if _is_generator(value):
            return "its sampler draws from a generator that is not among its attributes"
        if isinstance(value, type):
            waiting += [member for kind in value.__mro__ for member in _members(kind)]
        elif not isinstance(value, FunctionType):
            waiting += _wrapped(value)
        elif _is_followed(value):
            names = set(_names(value.__code__))
            if not _COLLECTIVE.isdisjoint(names):
                return "its sampler talks to other processes"
            waiting += _reached(value, names)
        elif _is_collective(value):
            return "its sampler talks to other processes"
    return None


def _members(kind: type, besides: str = "") -> list[Any]:
    if not _is_followed(kind):
        return []
    return [member for name, member in vars(kind).items() if name != besides]


def _is_followed(value: type | FunctionType) -> bool:
    return str(value.__module__).partition(".")[0] not in _NOT_FOLLOWED


def _is_collective(function: FunctionType) -> bool:
    return (
        str(function.__module__).startswith("torch.distributed")
        and function.__name__ in _COLLECTIVE | _COLLECTIVE_OF_TORCH
    )


def _kept(sampler: object) -> list[Any]:
    """Return the functions, and the methods of objects made in C, among a sampler's attributes."""
    kept: list[Any] = []
    waiting: list[Any] = [_attributes(sampler)]
    seen: set[int] = set()
    while waiting and len(seen) < _SEEN_MAX:
        value = waiting.pop()
        if id(value) not in seen:
            seen.add(id(value))
            waiting += _items(value)
            kept += [value] if isinstance(value, FunctionType | BuiltinMethodType) else []
    return kept


def _items(value: object) -> list[Any]:
    if isinstance(value, functools.partial):
        value = (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return []
    return [each for each in value if type(each) not in _ATOMS] if len(value) <= _ITEMS_MAX else []


def _is_generator(value: object) -> bool:
    if isinstance(value, torch.Generator):
        return value is not torch.default_generator
    if any(value is getattr(draw, "__self__", None) for draw in _global_draws()):
        return False
    kind = type(value)
    is_numpys = kind.__module__.startswith("numpy.random")
    return isinstance(value, random.Random) or (
        is_numpys and kind.__name__ in {"Generator", "RandomState"}
    )


def _global_draws() -> list[object]:
    """Return a method of each generator that Python and NumPy share."""
    numpy = sys.modules.get("numpy")
    return [random.random, *([] if numpy is None else [numpy.random.random])]


def _wrapped(value: object) -> list[Any]:
    """Return the functions of an object that is called like a function, or the items of a list."""
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, MethodType | BuiltinMethodType):
        return [getattr(value, "__func__", None), value.__self__]
    if isinstance(value, functools._lru_cache_wrapper):
        return [value.__wrapped__]
    return _items(value)


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals, imports and attributes in a code and in those nested in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):  # a lambda, a comprehension
            yield from _names(constant)


def _reached(function: FunctionType, names: set[str]) -> list[Any]:
    """Return the objects that a function holds, and those that its names refer to."""
    values = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    values += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    values += [
        space[name]
        for space in (function.__globals__, sys.modules)
        for name in names & space.keys()
    ]
    looked: set[int] = set()
    for value in values:  # which grows
        if id(value) not in looked:
            looked.add(id(value))
            values += [space[name] for space in _spaces(value) for name in names & space.keys()]
    return values


def _spaces(value: object) -> list[Mapping[str, Any]]:
    """Return where the attributes of a module, or of an instance of a followed class, are."""
    if isinstance(value, ModuleType):
        return [vars(value)]
    kind = type(value)
    if isinstance(value, type) or not _is_followed(kind):
        return []
    spaces = [vars(kind) for kind in kind.__mro__ if _is_followed(kind)]
    return [_attributes(value), *spaces]


def _attributes(value: object) -> Mapping[str, Any]:
    return getattr(value, "__dict__", {})


def _is_filled(cell: Any) -> bool:  # noqa: ANN401 - a closure's cell
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
