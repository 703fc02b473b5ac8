"""What commands share: output, numbers on the command line, help, and opening a pack.

The commands themselves are in ffrfs/cli. These two rooms alone print. All of this runs in the
main thread.
"""
