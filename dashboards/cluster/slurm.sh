#!/usr/bin/env bash
# A study on Slurm nodes: a Ray head on the first, workers on the others, the study beside the head.
#
#   sbatch dashboards/cluster/slurm.sh studies/vitrm_depth_sweep.py --preset paper --results /shared/results
#   scancel --batch --signal=TERM JOB    ends it politely: runs leave after their epochs, with a checkpoint
#   scancel JOB                          ends it at once: what was finished, and each run's last checkpoint, are kept
#
# Before its time limit the job ends politely and queues itself again; it goes on from the records, as after a preemption.
# Where Slurm does not requeue, the same command goes on.
#SBATCH --job-name=recstudy
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-task=4
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@600   # seconds for an epoch and a checkpoint; `B:` is for this script, which Ray would not outlive else
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

WAIT=${WAIT:-180}  # seconds for Ray to start on all nodes
STUDY=
REQUEUE=
leave() { [ -n "$STUDY" ] || exit 143; kill -TERM "$STUDY" 2>/dev/null || true; }
trap leave TERM
trap 'REQUEUE=1; leave' USR1

source "${VENV:-.venv}/bin/activate"

# Other users of these nodes reach every port: nobody joins without this token.
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(python -c "import secrets; print(secrets.token_hex(32))")
export RAY_AUTH_TOKEN

# The Metrics tab of the Ray dashboard then shows our panels where Prometheus and Grafana run: dashboards/prometheus.yml.
export RAY_GRAFANA_DATA_DASHBOARD_UID=recstudy

# Several jobs on one node must not meet: the port and the folder are this job's own.
PORT=$((20000 + SLURM_JOB_ID % 10000))
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
ADDRESS=$(getent ahostsv4 "$HEAD" | awk 'NR == 1 {print $1}')
START="--num-cpus=$SLURM_CPUS_PER_TASK --block"

# Until a command holds; the job fails where Ray has ended, or takes too long.
await() {
  for ((second = 0; second < WAIT; second += 2)); do
    if "$@"; then return; fi
    kill -0 "$RAY" 2>/dev/null || { echo "Ray did not start: its lines are above" >&2; exit 1; }
    sleep 2
  done
  echo "Ray was not there after $WAIT s, with all of its $SLURM_NNODES nodes: see its lines above, or give WAIT more" >&2
  exit 1
}
answers() { ray status --address="$ADDRESS:$PORT" >/dev/null 2>&1; }
nodes() { ray list nodes --address="$ADDRESS:$PORT" --filter state=ALIVE --format=json 2>/dev/null | grep -c '"node_id"' || true; }
all_there() { [ "$(nodes)" -ge "$SLURM_NNODES" ]; }

srun --nodes=1 --ntasks=1 --nodelist="$HEAD" --overlap \
  ray start --head --node-ip-address="$ADDRESS" --port="$PORT" --temp-dir="/tmp/ray-$SLURM_JOB_ID" $START &
RAY=$!
await answers
if [ "$SLURM_NNODES" -gt 1 ]; then
  srun --nodes=$((SLURM_NNODES - 1)) --ntasks=$((SLURM_NNODES - 1)) --exclude="$HEAD" --overlap \
    ray start --address="$ADDRESS:$PORT" $START &
  RAY=$!
  await all_there
fi

python "$@" --address "$ADDRESS:$PORT" &
STUDY=$!
CODE=0
wait "$STUDY" || CODE=$?
while kill -0 "$STUDY" 2>/dev/null; do  # a signal ends `wait`, not the study
  wait "$STUDY" || CODE=$?
done

if [ -n "$REQUEUE" ] && [ "$CODE" = 130 ]; then
  scontrol requeue "$SLURM_JOB_ID"
  sleep 60  # until Slurm ends this script
fi
exit "$CODE"
