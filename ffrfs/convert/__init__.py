"""Converts between TFRecord, FFRecord, packs and formats for Examples: the records stay the same.

convert.py converts one data set, convert_files.py each file of a directory by an executor. Each
file appears under its name whole, or not at all.
"""
