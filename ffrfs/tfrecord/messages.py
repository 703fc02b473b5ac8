"""Where pickles of messages that were made before name their classes."""

from ffrfs.tfrecord.examples.messages import *  # noqa: F403
