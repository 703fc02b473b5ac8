"""The settings of a mount: command line, configuration file, mount options."""
