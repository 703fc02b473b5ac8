#!/bin/bash
#SBATCH --job-name=train
#SBATCH --comment=ffrfs:imagenet
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
set -eu
user=$(id -u)
data=/mnt/ffrfs/$user/imagenet
# Where the prolog has its state, so that ffrfs finds the mount, also if the job has a /tmp of its
# own.
export XDG_RUNTIME_DIR=/run/ffrfs-slurm/$user/run

# The prolog does not fail if a data set cannot be mounted. Status 1 is a warning. A node under
# load may need a second try.
srun sh -c "timeout 30 sh -c 'until ffrfs check $data || [ \$? = 1 ]; do sleep 1; done' ||
  { cat /run/ffrfs-slurm/$user/imagenet/message; exit 1; }"

# Fill the cache of each node in the background; readers come first.
srun ffrfs prefetch --all "$data"

# The order in which files will be read. Hints are accepted as far ahead of the readers as they
# are of use, so this runs beside the training; ffrfs.torch.PrefetchSampler does the same by itself.
srun --overlap ffrfs prefetch "$data" --from order.txt &

srun --overlap python train.py --data "$data"
kill %1 2>/dev/null || true
