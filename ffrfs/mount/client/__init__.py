"""Programs that use a mount from outside: unmounting, questions, hints, mounted().

This room does not use trio, and does not touch the mount itself.
"""
