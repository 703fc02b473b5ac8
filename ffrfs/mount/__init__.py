"""The mount: daemon, options, unmounting, and the engines' front.

Who does what: options.py reads -o; mountpoint.py and mount_table.py know where a mount
stands; kernel_mount.py asks the kernel for it; state.py remembers it on disk for others;
daemon.py serves it; background.py puts the daemon there; unmount.py takes it away again;
mounted.py is all of that as a context manager. Engines (engine.py) answer the kernel.

Not here: the tree and its bytes (ffrfs._native.Volume), printing (ffrfs.cli).
"""
