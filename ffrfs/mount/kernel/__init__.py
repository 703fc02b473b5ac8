"""The interfaces of the kernel that a mount needs: mount options, mounting, mount points, the
mount table, dead mounts, processes, privileges; and the files that are kept about a mount.

Not here: settings (config), serving (engines).
"""
