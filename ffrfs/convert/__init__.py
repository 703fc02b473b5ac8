"""Converts between TFRecord, FFRecord, packs and formats for Examples: the records stay the same.

It may use the rooms folder, record and tfrecord, and the commands use it. Each file that it
writes appears under its name whole, or not at all.
"""
