#!/bin/sh
# A Prolog of Slurm: mounts the data sets that a job names in its comment.
#
#   sbatch --comment="ffrfs:imagenet ffrfs:audio" job.sh
#
# /etc/ffrfs/slurm/imagenet.toml says what imagenet is. It is mounted at /mnt/ffrfs/UID/imagenet,
# by the user of the job: only who mounts a pack may send it hints. All jobs of a user on the node
# share the mount, and all users share the cache directory. Each job leaves a file in
# /run/ffrfs-slurm/UID/imagenet/jobs; the epilog of the last one unmounts.
#
# slurm.conf: Prolog=, Epilog= and PrologFlags=Alloc, which mounts on all nodes of a job before it
# starts, not with the first step on each.
#
# Exit status: with any but 0, Slurm drains the node and holds the job. So a pack that is not there,
# a server that does not answer or a wrong name gives 0 (the job's script checks the mount), and
# only what other jobs would meet on this node, too, gives 1.
set -u
# Slurm sets no PATH.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
umask 022

ffrfs=/opt/ffrfs/bin/ffrfs
data_sets=/etc/ffrfs/slurm
mounts=/mnt/ffrfs
references=/run/ffrfs-slurm
cache_group=ffrfs # of the cache directory: mode 2770

uid=${SLURM_JOB_UID:?}
job=${SLURM_JOB_ID:?}

as_user() {
  # Not the environment of slurmd. Credentials are where the user has them: ~/.aws and the like.
  setpriv --reuid "$uid" --regid "$(id -g "$uid")" --groups "$groups" -- \
    env -i HOME="$home" PATH="$PATH" XDG_RUNTIME_DIR="$references/$uid/run" "$@"
}

# Not mountpoint(1): it would ask a mount that may hang.
is_mounted() {
  awk -v place="$1" '$5 == place { found = 1 } END { exit !found }' /proc/self/mountinfo
}

# 1: the node is to blame.
mount_data_set() (
  place=$mounts/$uid/$1
  own=$references/$uid/$1
  mkdir -p "$own/jobs" || return 1
  exec 9>"$own/lock" || return 1
  flock --wait 600 9 || return 1
  : >"$own/jobs/$job" || return 1

  # The daemon would keep the lock with 9.
  as_user "$ffrfs" umount --dead "$place" 9>&- || return 1
  if is_mounted "$place"; then
    return 0
  fi
  mkdir -p "$place" && chown "$uid" "$place" || return 1
  as_user timeout --kill-after=10 300 \
    "$ffrfs" mount --config "$data_sets/$1.toml" "$place" 9>&- 2>"$own/message"
  status=$?
  # What Slurm would lose; the user finds it in the file.
  if [ "$status" -ne 0 ]; then
    logger -t ffrfs-prolog "job $job, $1: status $status: $(cat "$own/message")"
  fi
  case $status in
    0 | 1 | 124) return 0 ;; # mounted; wrong pack, settings or server; too slow
    *) return 1 ;;           # no ffrfs, no /dev/fuse, no memory, the kernel refuses
  esac
)

groups=$(id -G "$uid" | tr ' ' ',') || exit 1
if cache_gid=$(getent group "$cache_group" | cut -d: -f3) && [ -n "$cache_gid" ]; then
  groups=$groups,$cache_gid
fi
home=$(getent passwd "$uid" | cut -d: -f6)
install -d -m 755 "$mounts" "$mounts/$uid" "$references" "$references/$uid" || exit 1
install -d -m 700 -o "$uid" "$references/$uid/run" || exit 1

exit_status=0
set -f # the comment is the user's, and has no patterns
for word in ${SLURM_JOB_COMMENT:-}; do
  name=${word#ffrfs:}
  case $name in
    "$word" | '' | *[!A-Za-z0-9_-]*) continue ;; # not for us, or a path
  esac
  mount_data_set "$name" || exit_status=1
done
exit "$exit_status"
