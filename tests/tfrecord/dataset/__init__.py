"""Tests of ffrfs.tfrecord.dataset."""
