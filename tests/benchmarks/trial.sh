#!/usr/bin/env bash
# The commands of docs/how-to/cluster.md, typed on machines of a cluster (hosts.sh) as they stand, and what they print; about ten
# minutes. Needs root, ip, unshare, curl and the data sets in DATA. What they came to is in tests/benchmarks/LOG.md.
#
#     tests/benchmarks/trial.sh DATA
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
HOSTS=tests/benchmarks/hosts.sh
HEAD=10.78.0.1
STORE="s3://results/trial?scheme=http&endpoint_override=10.78.0.254%3A9000&region=us-east-1"
PAPER="python studies/vitrm_depth_sweep.py --preset paper"
FOLDERS="--data /shared/data --results /shared/results"
export VARS="RAY_AUTH_MODE=token PYTHONPATH=/home/me/recstudy AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_EC2_METADATA_DISABLED=true"

typed() { # HOST COMMAND: on that machine, in the checkout where it has one
  printf '\n%s %s$ %s\n' "$(date +%T)" "$1" "$2"
  "$HOSTS" on "$1" bash -c "cd recstudy 2>/dev/null; $2" 2>&1 | grep -v "INFO\|SUCC -\|^ *$" | tail -n "${LINES_SHOWN:-6}" | cut -c1-300 || true
}

until_true() { # SECONDS WHAT COMMAND
  for ((left = $1; left > 0; left -= 2)); do
    if eval "$3"; then printf '%s %s\n' "$(date +%T)" "$2"; return; fi
    sleep 2
  done
  printf '%s NOT: %s\n' "$(date +%T)" "$2"
}

begun() { # HOST: a run is under way there
  cat /shared/results/runs/*/attempts.jsonl 2>/dev/null | grep -c "\"host\": \"$1\""
}

member() { # HOST: join as the documentation says
  "$HOSTS" on head cat .ray/auth_token | "$HOSTS" on "$1" bash -c 'mkdir -p .ray && cat > .ray/auth_token && chmod 600 .ray/auth_token'
}

trap '"$HOSTS" down; kill $(jobs -p) 2>/dev/null || true' EXIT
rm -rf /shared
"$HOSTS" up head a b c laptop
mkdir -p /shared/data /shared/results
cp -r "$1/." /shared/data
git clone --quiet --bare . /shared/recstudy.git

typed head "ray get-auth-token --generate"
for name in a b c laptop; do member "$name"; done
for name in head laptop; do "$HOSTS" on "$name" git clone --quiet /shared/recstudy.git; done
typed a "ls -A; python -c 'import recstudy'"
typed head "ray start --head --num-cpus=1"
typed a "ray start --address=$HEAD:6379 --num-cpus=1"

# From a machine that takes no runs, in the background; first before it has joined.
typed laptop "$PAPER --address $HEAD:6379 $FOLDERS"
typed laptop "ray start --address=$HEAD:6379 --num-cpus=0"
("$HOSTS" on laptop bash -c "cd recstudy; $PAPER --address $HEAD:6379 $FOLDERS" > /tmp/trial.laptop 2>&1 || true) &
printf '\n%s laptop$ %s --address %s:6379 %s &\n' "$(date +%T)" "$PAPER" "$HEAD" "$FOLDERS"
until_true 180 "runs on head and a" '(($(begun head) && $(begun a)))'
typed b "ray start --address=$HEAD:6379 --num-cpus=1"
until_true 120 "a run on b, which came while the study ran" '(($(begun b)))'
typed b "ps -eo args | grep ^vitrm"
typed head "curl -s -o /dev/null -w '%{http_code}\n' http://127.0.0.1:8265/nodes?view=summary"
typed head "curl -s -H \"Authorization: Bearer \$(ray get-auth-token)\" http://127.0.0.1:8265/nodes?view=summary | python -c 'import json, sys; print([node[\"hostname\"] for node in json.load(sys.stdin)[\"data\"][\"summary\"]])'"
typed laptop "curl -sS -m 5 http://$HEAD:8265/"
before=$(cat /shared/results/runs/*/attempts.jsonl | wc -l)
printf '\n%s a loses its power\n' "$(date +%T)"
kill -9 "$(cat /run/recstudy-hosts/a)"
typed c "ray start --address=$HEAD:6379 --num-cpus=1"
until_true 180 "a's run was begun again, on c" '(($(begun c))) && (($(cat /shared/results/runs/*/attempts.jsonl | wc -l) > before))'
printf '\n%s laptop loses its power; it had printed\n' "$(date +%T)"
cut -c1-300 /tmp/trial.laptop
kill -9 "$(cat /run/recstudy-hosts/laptop)"
until_true 120 "the cluster is free" '"$HOSTS" on head ray status 2>&1 | grep -q " 0.0/3.0 CPU"'
typed head "recstudy status /shared/results"

# As a job, at the head's end of the tunnel; one variant, shortened, so that it ends.
LINES_SHOWN=12 typed head "ray job submit --address http://127.0.0.1:8265 --working-dir . -- $PAPER --smoke --only 'latent_steps=1, supervision_steps=1' --address auto --data /shared/data --results /shared/job"

# An object store in place of the shared folder.
.venv/bin/python -c "import sys; sys.argv[1:] = ['-H', '10.78.0.254', '-p', '9000']; from moto.server import main; main()" > /dev/null 2>&1 &
until_true 60 "the store answers" 'curl -s -o /dev/null http://10.78.0.254:9000/'
curl -s -X PUT http://10.78.0.254:9000/results > /dev/null
LINES_SHOWN=12 typed head "python studies/vitrm_depth_sweep.py --smoke --only 'latent_steps=1*' --address auto --results '$STORE'"
typed head "python studies/vitrm_depth_sweep.py --smoke --only 'latent_steps=1*' --address auto --results '$STORE'"

# A model of one's own, in a file that no node has.
typed head "cd && recstudy new my_study && LINES=1 python my_study.py --smoke --address auto --results /shared/mine"
typed head "ray stop"
