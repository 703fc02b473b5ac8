"""Examples as arrays: parse_example and its family, as in tf.io.

Files are read elsewhere (ffrfs/tfrecord); nothing here opens one. Values are immutable and
plans are cached, so any thread may parse.
"""
