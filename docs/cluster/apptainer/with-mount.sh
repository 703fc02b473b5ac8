#!/bin/sh
# Runs a command with a pack mounted, in a container that is root in a user namespace of its own:
#
#   apptainer exec --fakeroot image.sif \
#     ./with-mount.sh /shared/imagenet.ffr /tmp/imagenet python train.py --data /tmp/imagenet
#
# The mount lasts as long as the command, or one of its children, has descriptor 4, the end of a
# pipe. So it ends with them, also if they are killed. (A container without a process namespace does
# not end its daemons.)
set -eu
pack=$1 mountpoint=$2
shift 2

# What ffrfs knows of its mounts is kept by their paths, and containers share /tmp: here, each has
# a directory of its own, for its commands, too. The job's end, or that of the machine, removes it.
place=$(mktemp -d) # closed to other users
export XDG_RUNTIME_DIR="$place"
mkdir -p "$mountpoint" # a daemon removes what it has made, and so the mount of another container
mkfifo "$place/pipe"
# Opening waits for the other end, in the next line.
ffrfs mount --while-open 3 "$pack" "$mountpoint" 3<"$place/pipe" &
exec 4>"$place/pipe"
rm "$place/pipe"
wait $! # it ends when the tree can be read
exec "$@"
