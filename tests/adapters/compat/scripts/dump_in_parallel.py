"""dump() into one file, and into a directory of parts, from the original's own processes."""

import os
import pickle

import ffrecord
from ffrecord.utils import dump


class Squares:
    def __len__(self):
        return 50

    def __getitem__(self, index):
        return pickle.dumps((index, index * index))


if __name__ == "__main__":
    dump(Squares(), "one.ffr", 1)
    ffrecord.utils.dump(Squares(), "many", nfiles=4, verbose=True)
    assert sorted(os.listdir("many")) == [f"PART_{number:05d}.ffr" for number in range(4)]
    for name in ("one.ffr", "many"):
        with ffrecord.FileReader(name) as reader:
            assert pickle.loads(reader.read_one(49)) == (49, 2401)
