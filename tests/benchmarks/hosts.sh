#!/usr/bin/env bash
# Machines of a cluster on this one: network namespaces on one bridge, each with a name, an address, and its own /tmp and home,
# with the environment of this checkout and without the checkout; all see the folder /shared.
#
#     tests/benchmarks/hosts.sh up head a b laptop      make them (root, ip, unshare): 10.78.0.1, .2, .3, .4
#     tests/benchmarks/hosts.sh on head ray start --head
#     tests/benchmarks/hosts.sh down                    end every process of theirs, and take them away
set -euo pipefail
CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BRIDGE=recstudy0
STATE=/run/recstudy-hosts

up() {
  ip link add "$BRIDGE" type bridge
  ip addr add 10.78.0.254/24 dev "$BRIDGE"
  ip link set "$BRIDGE" up
  mkdir -p "$STATE" /shared
  local number=0
  for name in "$@"; do add "$name" $((number += 1)); done
}

add() { # NAME NUMBER
  ip netns add "rs-$1"
  ip link add "rs-$1" type veth peer name eth0 netns "rs-$1"
  ip link set "rs-$1" master "$BRIDGE" up
  ip -n "rs-$1" addr add "10.78.0.$2/24" dev eth0
  ip -n "rs-$1" link set lo up
  ip -n "rs-$1" link set eth0 up
  ip -n "rs-$1" route add default via 10.78.0.254
  # one process keeps the host's file systems and process numbers for as long as it lives
  ip netns exec "rs-$1" unshare --mount --uts --ipc --pid --fork --kill-child --mount-proc --propagation private \
    bash -c '
      hostname "$1"
      mkdir -p /run/venv && mount --bind "$2/.venv" /run/venv
      for own in /tmp /home /dev/shm "$2"; do mount -t tmpfs tmpfs "$own"; done
      mkdir /home/me
      chmod 1777 /tmp /dev/shm
      mkdir "$2/.venv" && mount --move /run/venv "$2/.venv" 2>/dev/null || mount --bind /run/venv "$2/.venv"
      echo ready > /tmp/ready
      while :; do sleep 1 & wait; done' sh "$1" "$CHECKOUT" >/dev/null 2>&1 &
  local parent=$!
  until child=$(pgrep -P "$parent" 2>/dev/null | head -1) && [ -n "$child" ] && [ -e "/proc/$child/root/tmp/ready" ]; do sleep 0.1; done
  pgrep -P "$parent" | head -1 > "$STATE/$1"
}

on() { # NAME COMMAND...
  local name=$1; shift
  nsenter --target "$(cat "$STATE/$name")" --all env -i HOME=/home/me TERM=dumb LANG=C.UTF-8 \
    PATH="$CHECKOUT/.venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" ${VARS:-} bash -c 'cd && exec "$@"' on "$@"
}

down() {
  for file in "$STATE"/*; do
    if [ -e "$file" ]; then kill -9 "$(cat "$file")" 2>/dev/null || true; fi
    rm -f "$file"
  done
  for name in $(ip netns list 2>/dev/null | awk '/^rs-/ {print $1}'); do ip netns delete "$name" || true; done
  ip link delete "$BRIDGE" 2>/dev/null || true
}

"$@"
