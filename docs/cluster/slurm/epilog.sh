#!/bin/sh
# An Epilog of Slurm: takes back what prolog.sh has done for this job. The last job of a user that
# names a data set unmounts it. Slurm runs this at the end of each job, on all of its nodes, however
# the job has ended, and whether the prolog has succeeded or not.
#
# Exit status: with any but 0, Slurm drains the node. So it is 1 only if something is still
# mounted that must not be.
set -u
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH

ffrfs=/opt/ffrfs/bin/ffrfs
mounts=/mnt/ffrfs
references=/run/ffrfs-slurm

uid=${SLURM_JOB_UID:?}
job=${SLURM_JOB_ID:?}

as_user() {
  setpriv --reuid "$uid" --regid "$(id -g "$uid")" --clear-groups -- \
    env -i PATH="$PATH" XDG_RUNTIME_DIR="$references/$uid/run" "$@"
}

is_mounted() {
  awk -v place="$1" '$5 == place { found = 1 } END { exit !found }' /proc/self/mountinfo
}

release_data_set() (
  own=$1
  place=$mounts/$uid/${own##*/}
  # The prolog of another job may be mounting it.
  exec 9>"$own/lock" && flock --wait 600 9 || return 1
  rm -f "$own/jobs/$job"
  if [ -n "$(ls "$own/jobs")" ]; then
    return 0 # of other jobs
  fi
  if is_mounted "$place"; then
    # Also a mount that is busy, or whose daemon has died.
    as_user timeout --kill-after=10 60 "$ffrfs" umount "$place" 9>&-
  fi
  # If ffrfs cannot be run, or its daemon is stopped.
  if is_mounted "$place"; then
    umount --lazy "$place"
  fi
  if is_mounted "$place"; then
    logger -t ffrfs-epilog "job $job: cannot unmount $place"
    return 1
  fi
  rmdir "$place" 2>/dev/null
  return 0
)

exit_status=0
for reference in "$references/$uid"/*/jobs/"$job"; do
  if [ -e "$reference" ]; then
    release_data_set "${reference%/jobs/*}" || exit_status=1
  fi
done
exit "$exit_status"
