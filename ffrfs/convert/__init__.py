"""Between TFRecord, FFRecord, packs and formats for Examples: the same records, in another file.

It may use the rooms folder, record and tfrecord, and is used by the commands. Whatever is
written appears under its name whole, or not at all.
"""
