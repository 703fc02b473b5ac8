"""Messages, and the features of files."""
