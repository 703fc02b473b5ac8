"""A locale whose encoding is ASCII, for commands whose Python shall not choose UTF-8 instead."""

ASCII = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
