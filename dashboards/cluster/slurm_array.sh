#!/usr/bin/env bash
# A study as an array job of Slurm: each task is one process without Ray, which takes unfinished runs until none is left.
#
#   sbatch --array=0-15 dashboards/cluster/slurm_array.sh studies/vitrm_depth_sweep.py --preset paper --results /shared/results
#   scancel --batch --signal=TERM JOB    ends it politely: each task leaves its run after the epoch, with a checkpoint
#   scancel JOB                          ends it at once: what was finished, and each run's last checkpoint, are kept
#
# The same line again adds tasks to those that run. All tasks need one results folder, on a file system whose locks hold across
# nodes: NFS 4, GPFS, or Lustre mounted with `flock` (`localflock` locks within one node only, so that runs are done twice).
# A task ends when the runs that are left are those of other tasks, and draws the report; the last one has all runs.
#
# Before its time limit a task ends politely and queues itself again; it resumes its run, or another task does.
#SBATCH --job-name=recstudy
#SBATCH --array=0-7
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --gpus-per-task=1
#SBATCH --time=8:00:00
#SBATCH --signal=B:USR1@600   # seconds for an epoch and a checkpoint; `B:` is for this script, which passes it on
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

STUDY=
REQUEUE=
leave() { [ -n "$STUDY" ] || exit 143; kill -TERM "$STUDY" 2>/dev/null || true; }
trap leave TERM
trap 'REQUEUE=1; leave' USR1

source "${VENV:-.venv}/bin/activate"

python "$@" --no-ray --cpus "${SLURM_CPUS_PER_TASK:-1}" &
STUDY=$!
CODE=0
wait "$STUDY" || CODE=$?
while kill -0 "$STUDY" 2>/dev/null; do  # a signal ends `wait`, not the study
  wait "$STUDY" || CODE=$?
done

if [ -n "$REQUEUE" ] && [ "$CODE" = 130 ]; then
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"  # this task alone: the id of the job may be that of all tasks
  sleep 60  # until Slurm ends this script
fi
exit "$CODE"
