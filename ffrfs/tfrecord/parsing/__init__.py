"""Examples as arrays: parse_example and its family, as in tf.io.

Other modules read the files (ffrfs/tfrecord); this room opens none. Values are immutable and
plans are cached, so any thread may parse.
"""
