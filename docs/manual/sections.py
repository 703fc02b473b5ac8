"""Parts of manual pages that no parser knows: files, environment, signals, examples, statuses.

Texts are as prose.py reads them: paragraphs at the margin, items indented by two, examples by
four. Options, `words in grave accents`, and pages, as in mount(8), become bold.
"""

from __future__ import annotations

DATE = "2026-11-23"  # when something here was last changed

PROGRAM_SUMMARY = "pack directories into files, and mount them, every byte verified"

PROGRAM_DESCRIPTION = """\
A pack is an FFRecord file that holds a directory: each record is a file of the directory, and has
a checksum. A pack set is a directory of packs that are read as one. Every command that takes a pack
also takes a pack set. `ffrfs` also reads, verifies and mounts TFRecord files. Unmodified programs
read a mount as a read-only tree; they get no byte before its checksum was verified.

Each error is one line on standard error.
"""

# Commands with a page of their own.
PAGES_OF_COMMANDS = {"mount": "ffrfs-mount(8)"}

PROGRAM = {
    "exit status": """\
  0    Success.
  1    The data is damaged, or the operation failed.
  2    Wrong usage.
  130  Ctrl-C ended the command.
  141  The reader of the output closed it.

`ffrfs mount` uses the statuses of mount(8); see ffrfs-mount(8).
""",
    "environment": """\
  SOURCE_DATE_EPOCH  Seconds since 1970. `ffrfs pack` gives this time to every file in the pack,
                     and packs deterministically.
  XDG_CACHE_HOME     If the directory of a pack is read-only, its index is in `ffrfs/index` below
                     this directory (default: ~/.cache), and so are those of TFRecord files that
                     programs open in Python.
  XDG_RUNTIME_DIR    The state of this user's mounts is in `ffrfs` below this directory (default:
                     /run/user/UID). Not used for root.
""",
    "files": """\
  PACK.ffr.idx      Sidecar: the index of a pack that contains none.
  X.tfrecord.idx    Sidecar: the positions of the records of X.tfrecord, in the format of
                    tfrecord2idx.
  /run/ffrfs        State, control socket and log of each of root's mounts, until it is
                    unmounted. For other users: $XDG_RUNTIME_DIR/ffrfs, or /tmp/ffrfs-UID.
  /etc/ffrfs/*.toml  Mounts that systemd(1) runs; see ffrfs.conf(5).
""",
    "examples": """\
Pack a directory, mount it, read it, unmount it:

    ffrfs pack ~/imagenet imagenet.ffr
    ffrfs mount imagenet.ffr /mnt/imagenet
    python train.py --data /mnt/imagenet
    ffrfs umount /mnt/imagenet

Pack a data set into a set of 64 packs, verify it, and mount it as one tree:

    ffrfs pack --shards 64 ~/imagenet21k imagenet21k/
    ffrfs verify imagenet21k/
    ffrfs mount imagenet21k/ /mnt/imagenet21k

On slow storage, announce the order in which a job will read:

    ffrfs prefetch /mnt/imagenet --from order.txt
""",
    "see also": "ffrfs-mount(8), ffrfs.conf(5), mount(8), fuse(4), systemd(1)",
}

MOUNT_SUMMARY = "mount packs and TFRecord files as a read-only tree"

MOUNT_SYNOPSES = (
    "`mount -t ffrfs` [-o OPTIONS] PACK MOUNTPOINT",
    "`ffrfs umount` MOUNTPOINT",
)

MOUNT_DESCRIPTION = """\
If the bytes of a file do not match their checksum, reading it fails with an input/output error,
and the log names the file; all other files can be read. The tree cannot change while it is mounted,
so the kernel caches data after the first read.

A user other than root needs fusermount3(1), and `user_allow_other` in /etc/fuse.conf to give
access to other users. `ffrfs umount`, or mounting there again, removes a mount whose daemon has
died.
"""

MOUNT = {
    "mount(8) and fstab(5)": """\
`ffrfs install-units` installs the helpers /sbin/mount.ffrfs and /sbin/mount.fuse.ffrfs. Then
`mount -t ffrfs` and lines of fstab(5) mount packs. PACK is a file or a directory, or several of
them, separated by colons (write a backslash before a colon that belongs to a name). With mount(8),
-f checks without mounting, as --check does, and -s ignores unknown options.

    /data/imagenet.ffr  /mnt/imagenet  ffrfs  ro,allow_other,nofail,x-systemd.automount  0  0
    /nfs/a.ffr:/nfs/b.ffr  /mnt/both  ffrfs  ro,_netdev,cache_mb=512  0  0

findmnt(8) shows the type fuse.ffrfs. umount(8) ends the daemon.
""",
    "signals": """\
  SIGTERM, SIGINT  Unmount. A busy mount is detached at once, and its daemon ends when the last
                   open file is closed.
  SIGHUP           With --config, or under a service manager: read the configuration again, and
                   apply the settings that can change while mounted. Otherwise unmount.
""",
    "environment": """\
  NOTIFY_SOCKET   The daemon notifies the service manager when the tree can be read, what is
                  mounted, and when it unmounts (sd_notify(3)).
  WATCHDOG_USEC   As long as files of the mount can be read, the daemon also notifies the service
                  manager twice in this time.
  JOURNAL_STREAM  If standard error is the journal, lines of the log begin with their priority.
""",
    "files": """\
  /etc/ffrfs/NAME.toml  The mount of `ffrfs@NAME.service`; see ffrfs.conf(5).
  /etc/fuse.conf        `user_allow_other`: without it, only root may give access to other users.
  /run/ffrfs            State, control sockets and logs of root's mounts. For other users:
                        $XDG_RUNTIME_DIR/ffrfs or /tmp/ffrfs-UID.
""",
    "examples": """\
Mount two packs as one tree, for all users of the machine:

    ffrfs mount -o allow_other a.ffr b.ffr /mnt/both

Mount at boot, under systemd(1):

    ffrfs install-units
    systemctl enable --now ffrfs@imagenet.service

Check that a mount would succeed; mount; unmount:

    ffrfs mount --check --config imagenet.toml
    ffrfs mount --config imagenet.toml
    ffrfs umount --config imagenet.toml
""",
    "see also": "ffrfs(1), ffrfs.conf(5), fstab(5), findmnt(8), mount(8), systemd.mount(5)",
}

CONFIG_SUMMARY = "configuration of ffrfs mounts"

CONFIG_DESCRIPTION = """\
`ffrfs mount --config` FILE reads its settings from FILE. The command line overrides FILE. FILE is
TOML. Its keys are the long options of `ffrfs mount`, with an underscore for each hyphen, and the
three keys packs, mountpoint and options. An unknown key, or a value of the wrong type, is an error
that names the file and the key. Relative names are relative to the directory of FILE.
"""

# The keys that are not long options: the name of their value, and their meaning.
CONFIG_KEYS = {
    "packs": ('"PACK"|["PACK", ...]', "The packs to mount: one pack, or several as one tree."),
    "mountpoint": ('"MOUNTPOINT"', "The directory to mount at; if missing, it is created."),
    "options": ('"OPTIONS"|["OPTIONS", ...]', "The values of -o; see ffrfs-mount(8)."),
}

# Options about the run of the command, and not about the mount.
NOT_IN_A_CONFIG = frozenset(
    {"help", "help_all", "config", "check", "foreground", "while_open", "warm"}
)

CONFIG = {
    "the files of a unit": """\
`ffrfs@NAME.service` reads /etc/ffrfs/NAME.toml. It also reads /etc/ffrfs/NAME.conf, the file of
earlier versions, if that exists, and then logs a warning; a later version ignores it. That file is
not TOML, but an EnvironmentFile of systemd.exec(5). Its variables are the command line of the
mount, so they override the keys of NAME.toml:

  PACKS       One or more packs, separated by spaces.
  MOUNTPOINT  The directory to mount at.
  OPTIONS     Options of `ffrfs mount`, as in -o allow_other --cache-mb 512.

Either file may be missing. `systemctl reload` reads NAME.toml only.
""",
    "reloading": """\
On SIGHUP, or `systemctl reload`, the daemon reads FILE again and applies --log-file, --cache-mb,
--max-memory and --metrics-file. Other changes take effect at the next mount; a warning in the log
names them. A FILE with a mistake changes nothing.
""",
    "examples": """\
    packs = ["/data/a.ffr", "/data/b.ffr"]
    mountpoint = "/mnt/both"
    options = ["allow_other", "umask=027"]
    cache_mb = 512
    on_conflict = "first"
""",
    "see also": "ffrfs(1), ffrfs-mount(8), systemd.exec(5)",
}
