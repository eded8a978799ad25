#!/usr/bin/env bash
# The oracles of the cluster tests fail closed: one whose input cannot be read, is empty or cannot
# be compared is a failure, and says why. Every oracle is broken here on purpose, with fakes instead
# of a cluster.
# shellcheck source=tests/scripts/lib.sh
. "$(dirname "$0")/lib.sh"

record='{"v":1,"containers":{"main":[{"gpu":"GPU-11112222-3","mem":4}]}}'
inventory='{"v":1,"unit":"GiB","gpus":[{"uuid":"GPU-11112222-3","memory_mib":32768}]}'
mkdir -p "$work"/{good,bin,state}
export work
jq -cn --arg inventory "$inventory" '{items: [{metadata: {name: "n", annotations: {"tessera.io/inventory": $inventory}}}]}' >"$work/good/nodes"
jq -cn --arg record "$record" '{items: [{metadata: {namespace: "d", name: "p", uid: "u", annotations: {"tessera.io/allocation": $record}},
  spec: {nodeName: "n", containers: [{name: "main", resources: {limits: {"aliyun.com/gpu-mem": "4"}}}]}, status: {phase: "Running"}}]}' >"$work/good/pods"
echo '{"nodes":[{"name":"n","devs":[{"uuid":"GPU-11112222-3","pods":[{"namespace":"d","name":"p","usedGPU":4}]}]}],"problems":[]}' >"$work/good/inspect"
echo 'NVIDIA_VISIBLE_DEVICES=GPU-11112222-3' >"$work/good/logs"
echo '{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"main","ResourceName":"aliyun.com/gpu-mem",
  "DeviceIDs":{"0":["11112222-0","11112222-1","11112222-2","11112222-3"]}}],"RegisteredDevices":{"aliyun.com/gpu-mem":["11112222-0"]}}}' >"$work/good/checkpoint"
echo 'tessera_extender_leading 0' >"$work/good/metrics"
for result in no_room refused unknown; do echo "tessera_extender_binds_total{result=\"$result\"} 1" >>"$work/good/metrics"; done

# What the libraries call. Each answer is a file: a missing one makes the command fail.
cat >"$work/fakes" <<'FAKES'
set -euo pipefail
S=$work/state NODES=1
wait_until() { shift 2 && "$@"; } # one attempt
diagnose() { :; }
answer() { cat "$work/now/$1"; }
kubectl() { case " $* " in *' logs '*) answer logs ;; *' nodes '*) answer nodes ;; *) answer pods ;; esac; }
api_get() { answer "${1##*/}"; }
ask() { case $* in *inspect*) answer inspect ;; *) answer metrics ;; esac; }
checkpoint() { answer checkpoint; }
FAKES

# outcome LIBRARY COMMAND...: runs a check with the fakes. Prints "ok", or "FAIL" and what it says.
outcome() {
  local library=$1
  shift
  # shellcheck disable=SC2016
  PATH=$work/bin:$PATH bash -c 'set -euo pipefail; source "$0"; source "$work/fakes"; "$@"; finish' \
    "tests/$library/cluster/lib.sh" "$@" 2>&1 | sed -n -e 's/^ok .*/ok/p' -e 's/^FAIL.*/FAIL/p' -e 's/^      //p' | paste -sd' ' || true
}
# restore: all answers are good, and jq works.
restore() {
  rm -rf "$work/now" "$work/bin/jq"
  cp -r "$work/good" "$work/now"
}
# broken WHAT TEXT LIBRARY COMMAND...: expects that the check fails and says TEXT (a pattern).
broken() {
  local what=$1 text="FAIL*$2*" said
  shift 2
  said=$(outcome "$@")
  # shellcheck disable=SC2053 # a pattern
  [[ $said != $text ]] || said=$text
  expect "$what" "$text" "$said"
  restore
}
no_jq() { printf '#!/bin/sh\nexit 5\n' >"$work/bin/jq" && chmod +x "$work/bin/jq"; }
# change FILE FILTER: a valid answer with other content.
change() { jq -c "$2" "$work/good/$1" >"$work/now/$1"; }

restore
ledger=(extender check_ledger ledger)
expect "the ledger passes when all agree" ok "$(outcome "${ledger[@]}")"
for name in nodes pods inspect; do
  rm "$work/now/$name"
  broken "the ledger fails without $name" "cannot read" "${ledger[@]}"
  : >"$work/now/$name"
  broken "the ledger fails when the answer is empty: $name" "ledger.jq cannot compare" "${ledger[@]}"
  echo '{}' >"$work/now/$name"
  broken "the ledger fails when the answer has no content: $name" "ledger.jq cannot compare" "${ledger[@]}"
done
no_jq
broken "the ledger fails when jq fails" "ledger.jq cannot compare" "${ledger[@]}"
change nodes '.items = []'
broken "the ledger fails without an inventory" "ledger.jq cannot compare" "${ledger[@]}"
change inspect '.nodes[].devs[].pods = []'
broken "the ledger fails when a pod is missing in it" "not in the ledger" "${ledger[@]}"
change pods '.items += [.items[0] | .metadata.name = "q" | .metadata.annotations["tessera.io/allocation"] |= sub("4"; "29")]'
broken "the ledger fails when a GPU is allocated twice" "32 units, but 33 are allocated" "${ledger[@]}"

rebuild=(extender check rebuild prints_nothing rebuild_problems 2)
expect "the comparison with a rebuilt ledger passes when both agree" ok "$(outcome "${rebuild[@]}")"
for text in '' '{}' '{"nodes":[]}'; do
  echo "$text" >"$work/now/inspect"
  broken "the comparison fails when both ledgers are \"$text\"" "cannot read the ledger" "${rebuild[@]}"
done
no_jq
broken "the comparison fails when jq fails" "cannot read the ledger" "${rebuild[@]}"
printf '#!/bin/sh\ncat >/dev/null\necho $$\n' >"$work/bin/jq" && chmod +x "$work/bin/jq"
broken "the comparison fails when the ledgers differ" "<" "${rebuild[@]}"

agree=(agent check_agreement agreement)
expect "the agreement passes when all agree" ok "$(outcome "${agree[@]}")"
rm "$work/now/pods"
broken "the agreement fails without pods" "cannot read the pods" "${agree[@]}"
rm "$work/now/logs"
broken "the agreement fails without a container's environment" "cannot read the environment of p/main" "${agree[@]}"
rm "$work/now/checkpoint"
broken "the agreement fails without a checkpoint" "cannot read the checkpoint" "${agree[@]}"
for name in pods checkpoint; do
  : >"$work/now/$name"
  broken "the agreement fails when the answer is empty: $name" "agree.jq cannot compare" "${agree[@]}"
done
: >"$work/now/logs"
broken "the agreement fails when the environment is empty" "cannot read the environment of p/main" "${agree[@]}"
echo NVIDIA_VISIBLE_DEVICES=all >"$work/now/logs"
broken "the agreement fails when a container sees other GPUs" "p/main sees all" "${agree[@]}"
no_jq
broken "the agreement fails when jq fails" "cannot read the records" "${agree[@]}"
change pods '.items = []'
broken "the agreement fails when there is no pod to compare" "agree.jq cannot compare" "${agree[@]}"
change checkpoint '.Data.PodDeviceEntries[].DeviceIDs["0"] = ["33332222-0"]'
broken "the agreement fails when kubelet allocated other IDs" "p/main has IDs" "${agree[@]}"

others=(agent check others prints_nothing listed_with aliyun.com/gpu-mem -_-)
expect "the device IDs pass when none is foreign" ok "$(outcome "${others[@]}")"
: >"$work/now/checkpoint"
broken "the device IDs fail when the checkpoint is empty" "failed with exit code" "${others[@]}"

# shellcheck disable=SC2016 # for eval
fake_binds=(extender eval 'expect binds 3 "$(failed_binds)"')
expect "failed binds are counted" ok "$(outcome "${fake_binds[@]}")"
: >"$work/now/metrics"
broken "failed binds fail without the metric" "wanted: 3" "${fake_binds[@]}"

expect "a command that finds nothing passes" ok "$(outcome extender check it prints_nothing true)"
broken "a command that fails does not pass" "failed with exit code" extender check it prints_nothing false
broken "a command that finds something does not pass" "this" extender check it prints_nothing echo this
rm "$work/now/pods"
broken "an object is not gone when the API server does not answer" "failed with exit code" extender check it is_gone pod p
expect "no check of these folders compares output with nothing" "" \
  "$(grep -rnE 'expect "[^"]*" ""|-z \$\(' tests/extender/cluster tests/agent/cluster tests/cluster/tests)"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
