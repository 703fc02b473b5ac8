"""Environment variables for an ASCII locale, in which Python does not choose UTF-8 instead."""

ASCII = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
