"""`ffrfs.webdataset`: the adapter for webdataset (ffrfs/adapters/webdataset.py)."""

from ffrfs.adapters import import_as
from ffrfs.adapters.webdataset import *  # noqa: F403

import_as("ffrfs.webdataset", "ffrfs.adapters.webdataset")
