# Sourced by every attendee, once in each terminal. The instructor fills in the first part.

# Where the instructor has put the environment (env/) and the kit (ringside-students/).
export TUTORIAL="${TUTORIAL:-/SCRATCH/shared/tutorial}"
# A folder of your own on a file system that all nodes see and that has room.
export WORK="${WORK:-/SCRATCH/$USER/tutorial}"
# The cluster: one that `ringside site list` shows, or a file that `ringside site new` wrote.
export SITE="${SITE:-zaratan}"
# What a job needs here; see `ringside site show $SITE`. Empty: the site's default.
export RINGSIDE_ACCOUNT="${RINGSIDE_ACCOUNT:-}"
export RINGSIDE_RESERVATION="${RINGSIDE_RESERVATION:-}"
# The numbers of GPUs of one node that you will try; four is all that a node has.
export GPUS="${GPUS:-1 2 4}"
# What your measurements are compared with: cluster/machines/, or a file of `ringside fit`.
export MACHINE="${MACHINE:-zaratan}"

source "$TUTORIAL/env/bin/activate"
mkdir -p "$WORK"
cp -rn "$TUTORIAL"/ringside-students/lectures/tutorial/. "$WORK" # what you have changed stays
cd "$WORK" || return
