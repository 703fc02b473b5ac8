"""A training script with torchdata's StatefulDataLoader that knows nothing of ffrfs.

It leaves an epoch, saves the loader's state, and a new loader goes on; each prints its batches.
In the middle of each it waits for a file, GO1 and GO2.

python resumed_script.py FOLDER WORKERS GO STATE
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.adapters.torch.distributed_script import Shown, wait_for


def main(folder: str, workers: str, go: str, state: str) -> None:
    def loader() -> Any:
        how: dict[str, Any] = {"num_workers": int(workers)}
        return StatefulDataLoader(Shown(folder), 4, shuffle=True, **how)

    torch.manual_seed(3)
    begun = loader()
    for step, batch in enumerate(begun):
        print(batch)
        if step == 3:
            wait_for(f"{go}1")
            torch.save(begun.state_dict(), state)
            break
    torch.manual_seed(8)
    resumed = loader()
    resumed.load_state_dict(torch.load(state))
    for step, batch in enumerate(resumed):
        print(batch)
        if step == 1:
            wait_for(f"{go}2")
    print(*resumed, torch.rand(()))


if __name__ == "__main__":
    main(*sys.argv[1:])
