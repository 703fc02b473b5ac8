"""Writes pickled samples to a file and reads them, as at the start of the original's README."""

import pickle
import random

from ffrecord import FileReader, FileWriter


def serialize(sample):
    return pickle.dumps(sample)


def deserialize(data):
    return pickle.loads(data)


samples = [{"id": number, "values": list(range(number % 5))} for number in range(100)]
writer = FileWriter("test.ffr", len(samples))
for sample in samples:
    writer.write_one(bytearray(serialize(sample)))
writer.close()

reader = FileReader("test.ffr", check_data=True)
print(f"Number of samples: {reader.n}")
indices = [3, 6, 0, 10]
data = reader.read(indices)
assert [deserialize(each) for each in data] == [samples[index] for index in indices]
assert deserialize(reader.read_one(99).tobytes()) == samples[99]
assert pickle.loads(pickle.dumps(reader)).n == 100
reader.validate()
reader.close()

# Several files, and a directory of them, are one index space.
names = [f"part{number}.ffr" for number in range(3)]
for number, name in enumerate(names):
    with FileWriter(name, 10) as w:
        for record in range(10):
            w.write_one(b"%d" % (number * 10 + record))
order = list(range(30))
random.shuffle(order)
with FileReader(names, check_data=True) as reader:
    assert [int(each.tobytes()) for each in reader.read(order)] == order
    assert len(reader.get_offsets(1)) == 11
