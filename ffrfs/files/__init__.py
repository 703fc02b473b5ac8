"""Files and directories that appear whole, and what a file is. All other rooms may use it.

Knows of formats what their first bytes are, and does without the native core: a daemon uses it,
too.
"""
