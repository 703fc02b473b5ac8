"""Finds the items that a sampler will give in an epoch, and changes no random state.

It iterates a copy of the sampler, with copies of its generators. The generators of torch's own
samplers are known; for any other sampler, the global generators are put back after each step of the
copy. A sampler that draws from an object that cannot be copied is refused.

Concurrency: the thread that iterates the DataLoader.
"""

from __future__ import annotations

import copy
import itertools
import random
import sys
from collections.abc import Iterable, Iterator
from types import GeneratorType
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from ffrfs.adapters.torch.called_code import obstacle
from ffrfs.adapters.torch.skipping_sampler import SkippingSampler

# Iterating these changes nothing but their iterator.
_PURE = (SequentialSampler, DistributedSampler, list, tuple, range)
_DRAWING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_ATOMS = {bool, float, int, str}


class UnknownOrderError(Exception):
    """The items of a sampler cannot be known in advance; the text says why."""


def upcoming(sampler: Any, iterator: Iterator[Any], dataset: object) -> Iterator[Any]:  # noqa: ANN401
    """Return an iterator of the items that `iterator` of `sampler`, not begun yet, will give.

    `dataset` is shared with the copy. The iterator, too, raises UnknownOrderError.
    """
    twin = _twin(sampler)
    return _custom(sampler, iterator, dataset) if twin is None else iter(twin)


def _twin(sampler: Any) -> Any:  # noqa: ANN401 - any iterable
    """Return a copy that draws from generators of its own; None if it is not torch's or ours."""
    kind = type(sampler)
    if kind in _PURE:
        return sampler
    if kind in _DRAWING:
        twin = copy.copy(sampler)
        twin.generator = _generator(sampler)
        return twin
    if kind is BatchSampler:
        inner = _twin(sampler.sampler)
        return inner and BatchSampler(inner, sampler.batch_size, sampler.drop_last)
    if kind is SkippingSampler:
        wrapped = _twin(sampler.wrapped)
        return wrapped and itertools.islice(wrapped, sampler.first_step, None)
    return None


def _generator(sampler: Any) -> torch.Generator:  # noqa: ANN401 - one of _DRAWING
    own: torch.Generator = sampler.generator or torch.default_generator
    generator = torch.Generator(own.device)
    generator.set_state(own.get_state())
    if sampler.generator is None and isinstance(sampler, RandomSampler):
        # It draws the seed of a generator of its own.
        generator.manual_seed(
            int(torch.empty((), dtype=torch.int64, device="cpu").random_(generator=generator))
        )
    return generator


def _custom(sampler: Any, iterator: Iterator[Any], dataset: object) -> Iterator[Any]:  # noqa: ANN401
    memo: dict[int, object] = {id(dataset): dataset}
    _look_through(sampler, memo, set())
    # An iterator has a part of the state, for example after load_state_dict().
    source: Any = sampler if isinstance(iterator, GeneratorType | itertools.islice) else iterator
    before = _random_states()
    try:
        twin = iter(copy.deepcopy(source, memo))
    except Exception as error:
        raise UnknownOrderError(f"its sampler cannot be copied: {error}") from error
    finally:
        _put_back(before)
    return _guarded(twin)


def _guarded(twin: Iterator[Any]) -> Iterator[Any]:
    for step in itertools.count():
        before = _random_states()
        try:
            item = next(twin)
        except StopIteration:
            return
        finally:
            has_drawn = _put_back(before)
        if has_drawn and step > 0:
            raise UnknownOrderError(
                "its sampler draws random numbers as it goes, as the training may do in between"
            )
        yield item


def _random_states() -> tuple[Any, ...]:
    numpy = sys.modules.get("numpy")
    numpys = numpy.random.get_state() if numpy is not None else None
    return torch.get_rng_state(), random.getstate(), numpys


def _put_back(before: tuple[Any, ...]) -> bool:
    """Restore the global generators; return whether any was used."""
    torchs, pythons, numpys = before
    now = _random_states()
    has_torch, has_python = not torch.equal(torchs, now[0]), pythons != now[1]
    has_numpy = numpys is not None and not _is_equal(numpys, now[2])
    if has_torch:
        torch.set_rng_state(torchs)
    if has_python:
        random.setstate(pythons)
    if has_numpy:
        sys.modules["numpy"].random.set_state(numpys)
    return has_torch or has_python or has_numpy


def _is_equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(
        bool((a == b).all()) if hasattr(a, "all") else a == b
        for a, b in zip(one, other, strict=True)
    )


def _look_through(sampler: Any, memo: dict[int, object], seen: set[int]) -> None:  # noqa: ANN401
    """Refuse objects that a copy would disturb; add to `memo` those with no copy or a quick one."""
    if id(sampler) in seen:
        return
    seen.add(id(sampler))
    reason = obstacle(sampler)
    if reason is not None:
        raise UnknownOrderError(reason)
    for name, value in getattr(sampler, "__dict__", {}).items():
        if name in ("dataset", "data_source"):
            memo[id(value)] = value
        elif isinstance(value, Sampler) or (
            "sampler" in name and isinstance(value, Iterable) and hasattr(value, "__dict__")
        ):
            _look_through(value, memo, seen)
        else:
            _copy_lists(value, memo, seen)


def _copy_lists(value: object, memo: dict[int, object], seen: set[int]) -> None:
    """Add copies of the lists of numbers or texts in it to `memo`: deepcopy() takes each item."""
    if not isinstance(value, list | dict) or id(value) in seen:
        return
    seen.add(id(value))
    if type(value) is list and _ATOMS.issuperset(map(type, value)):
        memo[id(value)] = value.copy()
        return
    for each in value.values() if isinstance(value, dict) else value:
        _copy_lists(each, memo, seen)
