"""Packs a directory, and reads its files by path."""

from pathlib import Path

import ffrecord
import numpy as np
from ffrecord import PackedFolder, pack_folder
from ffrecord.package import FileReader

print(ffrecord.__version__)
folder = Path("folder")
(folder / "sub" / "deep").mkdir(parents=True)
contents = {"one.txt": b"1" * 1000, "sub/two.bin": bytes(range(256)), "sub/deep/three": b""}
for name, data in contents.items():
    (folder / name).write_bytes(data)
pack_folder(folder, Path("packed.ffr"), verbose=True)

packed = PackedFolder("packed.ffr")
assert packed.num_files() == 3
assert packed.list() == ["one.txt", "sub"]
assert packed.list("sub", list_dir=False) == ["two.bin"]
found = packed.list(recursive=True, list_dir=False)
assert found == ["one.txt", Path("sub/deep/three"), Path("sub/two.bin")]
assert [path.suffix for path in found[1:]] == ["", ".bin"]
assert packed.is_file("one.txt") and packed.is_dir(Path("sub")) and not packed.exists("nothing")
np.testing.assert_array_equal(packed.read_one("one.txt"), np.frombuffer(b"1" * 1000, np.uint8))
assert packed.read("one.txt").tobytes() == contents["one.txt"]
assert [each.tobytes() for each in packed.read(list(contents))] == list(contents.values())
index = packed.structure["sub"]["two.bin"]
assert packed.reader.read_one(index).tobytes() == contents["sub/two.bin"]
assert isinstance(packed.reader, FileReader)
