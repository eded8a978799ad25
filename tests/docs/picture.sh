#!/usr/bin/env bash
# The picture of the README is what `tessera topo` draws today.
#
#   picture.sh BIN           fails if docs/share-and-ring.svg differs from the output of BIN/tessera
#   picture.sh BIN --write   writes docs/share-and-ring.svg
#
# It shows a DGX-1V with three pods of 3 GiB on GPU 4, and which four GPUs a job would get.
set -euo pipefail
cd "$(dirname "$0")/../.."
tessera=$(realpath "$1")/tessera
picture=docs/share-and-ring.svg
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$tessera" inventory --machine dgx1v --name gpu-a -o json >"$work/node.json"
gpu=$(jq -r '.metadata.annotations["tessera.io/inventory"] | fromjson.gpus[4].uuid' "$work/node.json")
jq '{kind: "List", items: [.]}' "$work/node.json" >"$work/nodes.json"
# The pods of deploy/examples/binpack.yaml.
jq -n --arg gpu "$gpu" '{kind: "List", items: [range(3) | {
  metadata: {name: "binpack-\(.)", namespace: "default", uid: "pod-\(.)", annotations: {
    "tessera.io/allocation": ({v: 1, containers: {main: [{gpu: $gpu, mem: 3}]}} | tojson)}},
  spec: {nodeName: "gpu-a", containers: [{name: "main", resources: {limits: {"aliyun.com/gpu-mem": "3"}}}]},
  status: {phase: "Running"}}]}' >"$work/pods.json"

"$tessera" topo gpu-a --file "$work" >"$work/topo.txt"
grep -q '9/32 GiB: default/binpack-0, default/binpack-1, default/binpack-2' "$work/topo.txt" ||
  { echo "FAILED: the pods are not on GPU 4:" && cat "$work/topo.txt" && exit 1; }
"$tessera" topo gpu-a --file "$work" --count 4 -o svg >"$work/new.svg"
if [ "${2:-}" = --write ]; then
  cp "$work/new.svg" "$picture"
elif ! cmp "$work/new.svg" "$picture"; then
  echo "FAILED: $picture differs from the output of tessera topo; write it again: tests/docs/picture.sh build/dev/bin --write"
  exit 1
fi
