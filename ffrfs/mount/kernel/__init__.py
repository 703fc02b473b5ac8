"""What the kernel is asked for and what it tells: mount options, mounting, mount points, the
mount table, dead mounts; what is kept on disk about a mount; processes and privileges.

Not here: settings (config), serving (engines).
"""
