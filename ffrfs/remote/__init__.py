"""Objects at URLs: in S3, GCS, Azure, on HTTP servers, and files on slow file systems.

One process, the fetcher, downloads them; all others read the files that it fills.

Not here: the cache on disk (ffrfs.cache), reading fetched blocks (native/remote).
"""
