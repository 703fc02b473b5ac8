"""Settings of a mount: the command line, the configuration file, the request made of both, and the
report of how mounting ended.
"""
