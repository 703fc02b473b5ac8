"""Between TFRecord, FFRecord and packs: the same records, in another file.

It may use the rooms folder, record and tfrecord, and is used by the commands. Whatever is
written appears under its name whole, or not at all.
"""
