"""Those who speak to a mount from outside: unmounting, questions, hints, mounted().

No trio here, and no touching of the mount itself.
"""
