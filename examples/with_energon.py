"""Megatron-Energon reads auxiliary media: python with_energon.py PACK (has train/cat/00.png)"""

from __future__ import annotations

import pickle
import sys
from types import SimpleNamespace

from ffrfs.energon import PackFileStore


def main(pack: str) -> None:
    store = pickle.loads(pickle.dumps(PackFileStore(pack)))  # a worker gets such a copy
    sample = SimpleNamespace(__sources__=())
    picture = store.get("train/cat/00.png", sample)
    (source,) = sample.__sources__
    assert (source.index, str(source.dataset_path)) == ("train/cat/00.png", store.get_path())
    print("PNG" if picture.startswith(b"\x89PNG") else "wrong", source.file_names)


if __name__ == "__main__":
    main(sys.argv[1])
