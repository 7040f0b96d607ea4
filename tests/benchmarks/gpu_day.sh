#!/usr/bin/env bash
# What one lent GPU does in half an hour, in order of worth; by --no-ray alone, so that the machine needs no Ray.
#
#     DATA=DIR tests/benchmarks/gpu_day.sh MINUTES [FOLDER]    DIR has MNIST/, cifar-10-batches-py/, cifar-100-python/ or some of them
#     TOY=1 tests/benchmarks/gpu_day.sh MINUTES [FOLDER]       every step in small, on a CPU
#     tests/benchmarks/gpu_day.sh list                         each step, its most minutes, and its command
#
# A step that is done is not done again, and one that ran out of time goes on from its records and checkpoints: the same command
# goes on where the last one stopped. FOLDER (build/gpu_day) has done/, log/, cache/ (decoded data, compiled graphs), results/, and
# at the end records.tar.gz: results/ without weights and checkpoints, of which `docs/tools/study_pages.py --results DIR --take` takes a study.
# PYTHON needs torch, torchvision, timm, numpy, scipy, scikit-learn, pandas, plotly, pydantic, tyro, rich, PyYAML and safetensors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
MINUTES=${1:?"how many minutes, or list"} FOLDER=${2:-build/gpu_day}
PYTHON=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
LEAST=45 GRACE=30 SLOWER=$([ "${TOY:-}" ] && echo 4 || echo 1) # seconds: none is begun with less; for a run to end its epoch
export PYTHONPATH=$PWD RECSTUDY_CACHE=${RECSTUDY_CACHE:-$FOLDER/cache} RECSTUDY_DATA=${DATA:-${RECSTUDY_DATA:-data}}

GPU=("$PYTHON" tests/benchmarks/gpu.py ${TOY:+--toy} --results "$FOLDER/results")
STUDY=(--no-ray ${TOY:+--smoke} --results "$FOLDER/results")
IMAGES=() # of the data sets that are here
for pair in MNIST:MNIST cifar-10-batches-py:CIFAR-10 cifar-100-python:CIFAR-100; do
  if [ -e "$RECSTUDY_DATA/${pair%:*}" ]; then IMAGES+=(--only "data=${pair#*:},*"); fi
done

step() { # NAME MINUTES COMMAND...: done at most once, within its own minutes and what is left of all
  local name=$1 most=$((SLOWER * 60 * $2)) left=$((END - SECONDS - GRACE)) began=$SECONDS code=0 told
  shift 2
  if [ "$MINUTES" = list ]; then printf '%s, at most %s min: %s\n' "$name" $((most / 60)) "$(printf ' %q' "$@")"; return; fi
  if [ -e "$FOLDER/done/$name" ]; then echo "$name: done before"; return; fi
  if ((left < LEAST)); then echo "$name: no time left"; return; fi
  # in the foreground, as timeout calls it: else a command gets the signal twice, which to a study means to end at once
  timeout --foreground --kill-after=$GRACE $((most < left ? most : left)) "$@" >> "$FOLDER/log/$name.txt" 2>&1 || code=$?
  case $code in
    0) told="done"; touch "$FOLDER/done/$name" ;;
    124 | 137) told="out of time; it goes on the next time" ;;
    *) told="FAILED with $code, see log/$name.txt" ;;
  esac
  echo "$name: $told, $((SECONDS - began)) s"
}

steps() {
  step contract 4 "${GPU[@]}" contract
  step resume 2 "${GPU[@]}" resume
  step trm 4 "${GPU[@]}" trm
  step fast 8 "${GPU[@]}" fast
  for family in hrm vitrm; do step $family 4 "${GPU[@]}" $family; done
  if ((${#IMAGES[@]})); then
    step small-images 12 "$PYTHON" studies/hrm_small_images.py --preset paper "${STUDY[@]}" "${IMAGES[@]}"
  else
    echo "small-images: left out, as none of its data sets is in $RECSTUDY_DATA"
  fi
  step sudoku 60 "$PYTHON" studies/sudoku_depth.py --preset standard "${STUDY[@]}" --seeds 1 \
    --only "supervision_steps=16, cycles=3*" ${TOY:+data.puzzles=64 data.test_puzzles=16 train.batch_size=8 train.epochs=1 model.width=64}
}

if [ "$MINUTES" != list ]; then
  if [ -z "${TOY:-}" ] && ! "$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    echo "gpu_day.sh: torch sees no GPU here. TOY=1 does every step in small on a CPU." >&2
    exit 2
  fi
  mkdir -p "$FOLDER"/{done,log,results}
  trap 'tar -C "$FOLDER" --exclude="*.safetensors" --exclude="checkpoint*" -czf "$FOLDER/records.tar.gz" results log done' EXIT
  END=$((SECONDS + 60 * MINUTES))
else
  END=0
fi
steps
