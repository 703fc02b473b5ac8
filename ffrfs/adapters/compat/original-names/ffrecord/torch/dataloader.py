"""`ffrecord.torch.dataloader`: the DataLoader of ffrfs.torch, with forked workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from ffrfs.adapters.torch.loader import DataLoader as _DataLoader
from ffrfs.adapters.torch.record_dataset import Dataset

__all__ = ["DataLoader", "Dataset"]

T_co = TypeVar("T_co", covariant=True)


class DataLoader(_DataLoader[T_co]):
    """The DataLoader of ffrfs.torch; by default it forks workers, as the original does.

    So data sets that cannot be pickled work under every version of Python. With batch_size=None,
    a data set of records still gets a list, of one number.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the parameters of torch's
        self,
        dataset: Any,  # noqa: ANN401 - any data set
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,  # noqa: ANN401 - as torch's
        batch_sampler: Any = None,  # noqa: ANN401
        num_workers: int = 0,
        *args: Any,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> None:
        if num_workers and len(args) < _CONTEXT_ARGUMENT:
            options.setdefault("multiprocessing_context", "fork")
        super().__init__(
            dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, *args, **options
        )

    @property
    def _index_sampler(self) -> Any:  # noqa: ANN401 - torch's name, for the source of an epoch
        steps = self._steps
        is_of_numbers = self.batch_sampler is None and isinstance(self.dataset, Dataset)
        return _Lists(steps) if is_of_numbers else steps


class _Lists:
    def __init__(self, wrapped: Iterable[Any]) -> None:
        self.wrapped = wrapped

    def __iter__(self) -> Iterator[list[Any]]:
        return (index if isinstance(index, list) else [index] for index in iter(self.wrapped))

    def __len__(self) -> int:
        return len(self.wrapped)  # type: ignore[arg-type] # TypeError


# multiprocessing_context is the sixth argument behind num_workers: after collate_fn, pin_memory,
# drop_last, timeout and worker_init_fn.
_CONTEXT_ARGUMENT = 6
