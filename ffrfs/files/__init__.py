"""Files and directories that appear whole, and kinds of files. All other rooms may use it.

It knows only the first bytes of formats, and does without the native core: a daemon uses it,
too.
"""
