#!/usr/bin/env bash
# A study on Slurm nodes: a Ray head on the first, workers on the others, the study beside the head.
#
#   sbatch dashboards/cluster/slurm.sh studies/vitrm_depth_sweep.py --preset paper --results /shared/results
#
# Give the same command again when the time limit ends it: what was finished is kept.
#SBATCH --job-name=recstudy
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-task=4
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@60   # the study stops as with Ctrl-C, a minute before the end
set -euo pipefail

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

srun --nodes=1 --ntasks=1 --nodelist="$HEAD" --overlap \
  ray start --head --node-ip-address="$ADDRESS" --port="$PORT" --temp-dir="/tmp/ray-$SLURM_JOB_ID" $START &
until ray status --address="$ADDRESS:$PORT" >/dev/null 2>&1; do sleep 2; done
if [ "$SLURM_NNODES" -gt 1 ]; then
  srun --nodes=$((SLURM_NNODES - 1)) --ntasks=$((SLURM_NNODES - 1)) --exclude="$HEAD" --overlap \
    ray start --address="$ADDRESS:$PORT" $START &
fi
until [ "$(ray list nodes --address="$ADDRESS:$PORT" --filter state=ALIVE --format=json | grep -c '"node_id"')" -ge "$SLURM_NNODES" ]; do
  sleep 2
done

python "$@" --address "$ADDRESS:$PORT"
