"""The tests: a package for each room, the same names as the rooms have."""
