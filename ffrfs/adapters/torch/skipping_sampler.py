"""SkippingSampler: a sampler, or a batch sampler, without its first steps.

All else is that of the wrapped sampler. Concurrency: that of the wrapped one; only the process
that iterates a DataLoader uses it, never a worker.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from torch.utils.data import Sampler

if TYPE_CHECKING:
    from ffrfs.adapters.torch.receipt import EpochNotes

_OWN = ("wrapped", "first_step", "watch")

# A context variable of the iterating thread, because objects between a SkippingSampler and the
# sampler that reads it, such as torch's BatchSampler, do not pass it on.
_is_skipping = ContextVar("is_skipping", default=False)


def is_skipping() -> bool:
    """Return whether the next item of a sampler will be skipped, and so not be read."""
    return _is_skipping.get()


class SkippingSampler(Sampler[Any]):
    """The items of `wrapped`, from number `first_step` on.

    An iteration keeps the `first_step` that it began with. Skipped items are drawn from
    `wrapped` all the same, so that random orders stay the same. All other attributes
    are read from `wrapped`, and written to it: `set_epoch()`, `batch_size`, `sampler`.
    """

    def __init__(self, wrapped: Iterable[Any]) -> None:
        self.wrapped = wrapped
        self.first_step = 0
        self.watch: EpochNotes | None = None  # notes the items of the next iteration

    def __iter__(self) -> Iterator[Any]:
        # torch begins an epoch with workers by calling this twice, and draws the seed of the
        # workers before it takes the first batch. So `wrapped` must begin at the same time as
        # without skipping, and no item is taken from it before the first next().
        items = _rest(iter(self.wrapped), self.first_step)
        return items if self.watch is None else self.watch.over(items)

    def __len__(self) -> int:
        return max(0, len(self.wrapped) - self.first_step)  # type: ignore[arg-type] # TypeError

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the sampler's attribute
        # Copying and pickling concern this object, which has no `wrapped` at that time.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.wrapped, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in _OWN:
            super().__setattr__(name, value)
        else:
            setattr(self.wrapped, name, value)


def _rest(items: Iterator[Any], first_step: int) -> Iterator[Any]:
    before = _is_skipping.set(True)
    try:
        for _ in itertools.islice(items, first_step):
            pass
    finally:
        _is_skipping.reset(before)
    yield from items
