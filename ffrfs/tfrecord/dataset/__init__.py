"""RecordDataset: the records of many TFRecord files as a stream, with the habits of tf.data.

record_dataset.py has what users call; stages.py what each method does; source.py reads
files; read_ahead.py is the only file that starts threads. Random access is not here
(ffrfs.tfrecord.reader).
"""
