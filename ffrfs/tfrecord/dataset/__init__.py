"""RecordDataset: the records of many TFRecord files as a stream, with the habits of tf.data.

record_dataset.py has the public class; stages.py implements each method; source.py reads
files; read_ahead.py is the only file that starts threads. Not here: random access
(ffrfs.tfrecord.reader).
"""
