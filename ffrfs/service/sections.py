"""What manual pages say that no parser knows: files, environment, signals, examples, statuses.

Texts are those of prose.py: paragraphs at the margin, items indented by two, examples by four.
Bold are options, `words in grave accents`, and pages, as in mount(8).
"""

from __future__ import annotations

DATE = "2026-11-22"  # when something here was last changed

PROGRAM_SUMMARY = "pack folders into single files, and mount them, every byte checked"

PROGRAM_DESCRIPTION = """\
A packed folder is an FFRecord file: one file, in which each record is a file of the folder, with
a checksum. TFRecord files are read, verified and mounted, too. A mount is a read-only tree that
unmodified programs read; no byte reaches them before its checksum was compared.

Errors are one line each, on standard error.
"""

# Commands with a page of their own.
PAGES_OF_COMMANDS = {"mount": "ffrfs-mount(8)"}

PROGRAM = {
    "exit status": """\
  0    All is well.
  1    The data is bad, or the operation has failed.
  2    Wrong usage.
  130  Ended by Ctrl-C.
  141  Whoever read the output has gone.

`ffrfs mount` has the statuses of mount(8); see ffrfs-mount(8).
""",
    "environment": """\
  SOURCE_DATE_EPOCH  Seconds since 1970: the time of every file in a pack that `ffrfs pack`
                     writes, which is then reproducible.
  XDG_CACHE_HOME     Indexes lie in `ffrfs/index` below it where a pack's own folder is
                     read-only; ~/.cache where it is not set.
  XDG_RUNTIME_DIR    What is known of this user's mounts lies in `ffrfs` below it, but for root.
""",
    "files": """\
  PACK.ffr.idx      Index of a pack that carries none.
  X.tfrecord.idx    Where the records of X.tfrecord begin, as tfrecord2idx writes it.
  /run/ffrfs        Root's mounts: for each its state, its control socket and its log, until it
                    is unmounted. For others it is $XDG_RUNTIME_DIR/ffrfs, or /tmp/ffrfs-UID.
  /etc/ffrfs/*.conf  Mounts that systemd(1) serves; see ffrfs.conf(5).
""",
    "examples": """\
Pack a folder, mount it, read it, unmount it:

    ffrfs pack ~/imagenet imagenet.ffr
    ffrfs mount imagenet.ffr /mnt/imagenet
    python train.py --data /mnt/imagenet
    ffrfs umount /mnt/imagenet

A data set of 64 packs, written in parallel, shown as one tree:

    ffrfs pack --shards 64 ~/imagenet21k imagenet21k/
    ffrfs verify imagenet21k/
    ffrfs mount imagenet21k/ /mnt/imagenet21k

Tell a mount in which order a job will read, from slow storage:

    ffrfs prefetch /mnt/imagenet --from order.txt
""",
    "see also": "ffrfs-mount(8), ffrfs.conf(5), mount(8), fuse(4), systemd(1)",
}

MOUNT_SUMMARY = "mount packed folders and TFRecord files as a read-only tree"

MOUNT_SYNOPSES = (
    "`mount -t ffrfs` [-o OPTIONS] PACK MOUNTPOINT",
    "`ffrfs umount` MOUNTPOINT",
)

MOUNT_DESCRIPTION = """\
A file whose bytes do not match their checksum gives an input/output error; all others can be
read, and the log names it. The tree cannot change while it is mounted, so the kernel keeps what
was read once.

A user other than root needs fusermount3(1), and `user_allow_other` in /etc/fuse.conf to let
other users in. A mount whose daemon has died is taken away by `ffrfs umount`, and by mounting
there again.
"""

MOUNT = {
    "mount(8) and fstab(5)": """\
Once `ffrfs install-units` has installed its helpers, /sbin/mount.ffrfs and
/sbin/mount.fuse.ffrfs, `mount -t ffrfs` and lines of fstab(5) mount packs. PACK is a file or a
folder, or several, with colons between them (a backslash before a colon that belongs to a
name). There, -f validates without mounting, as --check does, and -s passes over options that
are unknown.

    /data/imagenet.ffr  /mnt/imagenet  ffrfs  ro,allow_other,nofail,x-systemd.automount  0  0
    /nfs/a.ffr:/nfs/b.ffr  /mnt/both  ffrfs  ro,_netdev,cache_mb=512  0  0

findmnt(8) shows the type fuse.ffrfs; umount(8) ends the daemon.
""",
    "signals": """\
  SIGTERM, SIGINT  Unmount. A mount that is busy is detached at once, and its daemon ends when
                   the last open file is closed.
  SIGHUP           With --config, or under a service manager: read the configuration again, and
                   take over what can be changed while it is mounted. Otherwise unmount.
""",
    "environment": """\
  NOTIFY_SOCKET   A service manager is told when the tree can be read, what is mounted, and
                  that it is being unmounted (sd_notify(3)).
  WATCHDOG_USEC   It is also told, twice in that time, that files of the mount can be read: for as
                  long as that is so.
  JOURNAL_STREAM  Where standard error is the journal, lines of the log begin with their
                  priority.
""",
    "files": """\
  /etc/ffrfs/NAME.conf  What `ffrfs@NAME.service` mounts; see ffrfs.conf(5).
  /etc/fuse.conf        `user_allow_other`, without which only root may let other users in.
  /run/ffrfs            State, control sockets and logs of root's mounts; of others, in
                        $XDG_RUNTIME_DIR/ffrfs or /tmp/ffrfs-UID.
""",
    "examples": """\
One tree of two packs, for all users of the machine:

    ffrfs mount -o allow_other a.ffr b.ffr /mnt/both

At boot, kept up by systemd(1):

    ffrfs install-units
    systemctl enable --now ffrfs@imagenet.service

What would be mounted, and whether it could be:

    ffrfs mount --check --config imagenet.toml
""",
    "see also": "ffrfs(1), ffrfs.conf(5), fstab(5), findmnt(8), mount(8), systemd.mount(5)",
}

CONFIG_SUMMARY = "what ffrfs mounts, and how"

CONFIG_DESCRIPTION = """\
`ffrfs mount --config` FILE reads in FILE what its command line would say otherwise; where both
say something, the command line holds. FILE is TOML. Its keys are the long options of
`ffrfs mount`, with an underscore for each hyphen, and three more. A key that is unknown, or has
a value of another type, is an error that names file and key. Names that are relative begin in
the folder of FILE.
"""

# The keys that are no long option: what stands for their value, and what they say.
CONFIG_KEYS = {
    "packs": ('"PACK"|["PACK", ...]', "What is mounted: one pack, or several as one tree."),
    "mountpoint": ('"MOUNTPOINT"', "Where: a directory; if missing, it is made."),
    "options": ('"OPTIONS"|["OPTIONS", ...]', "The values of -o; see ffrfs-mount(8)."),
}

# Options that say how a command is run, and not what is mounted.
NOT_IN_A_CONFIG = frozenset({"help", "config", "check", "foreground", "while_open"})

CONFIG = {
    "the file of a unit": """\
`ffrfs@NAME.service` reads /etc/ffrfs/NAME.conf, which is not TOML but the EnvironmentFile of
systemd.exec(5):

  PACKS       One or more, between spaces; none if the file of --config has them.
  MOUNTPOINT  Where they are mounted.
  OPTIONS     Options of `ffrfs mount`, as -o allow_other --config /etc/ffrfs/NAME.toml.
""",
    "reloading": """\
On SIGHUP, or `systemctl reload`, FILE is read again. --log-file, --cache-mb, --max-memory and
--metrics-file are taken over; what else was changed holds after the next mount, and a warning
in the log says so. A FILE with a mistake changes nothing.
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
