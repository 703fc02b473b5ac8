"""Files and directories that appear whole. All other rooms may use it.

Knows no format, and does without the native core: a daemon uses it, too.
"""
