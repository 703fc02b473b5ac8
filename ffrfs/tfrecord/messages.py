"""Old pickles of messages name their classes in this module."""

from ffrfs.tfrecord.examples.messages import *  # noqa: F403
