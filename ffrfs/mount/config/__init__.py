"""What a mount is asked to do: settings, the command line, the configuration file, the request;
and the report of what came of it.
"""
