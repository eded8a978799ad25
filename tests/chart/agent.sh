#!/usr/bin/env bash
# What the chart renders for the nodes: least privilege by default, more only where a strategy needs it.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
require_tools_or_skip
agent=DaemonSet/tessera-agent
pod() { the $agent ".spec.template.spec | $1"; }
paths() { pod '[.volumes[].hostPath.path] | sort | join(" ")'; }
args() { pod '.containers[0].args | join(" ")'; }

# The program itself must take what it is given.
program=${TESSERA_BIN:-$CHART_ROOT/build/release/bin}/tessera-agent
takes() { # what, values...
  local what=$1 out
  local -a given
  shift
  render "$@"
  [[ -x $program ]] || { say "$program is missing: its own opinion on \"$what\" is not asked" && return; }
  mapfile -t given < <(pod '.containers[0].args[]' | sed 's/\$(NODE_NAME)/node-a/')
  if out=$("$program" --check-config "${given[@]}" 2>&1); then pass; else fail "the agent takes its arguments: $what" "$out"; fi
}
takes "as they are"
takes "simulated" --set simulate.machine=dgx1v --set log.level=debug --set log.format=json
takes "watching memory" --set agent.memory.policy=evict --set agent.memory.grace=5m --set agent.memory.slack=512Mi --set agent.sampleEvery=30s
takes "amounts at the edge" --set agent.sampleEvery=1000ms --set agent.memory.grace=999m --set agent.memory.slack=999Gi --set-json 'agent.xids="ignored=all; fatal = 94, 99999;"'
takes "and at the other" --set agent.sampleEvery=9999s --set agent.memory.grace=0s --set-string agent.memory.slack=0
takes "cdi" --set agent.strategy=cdi --set agent.driverRoot=/run/nvidia/driver --set agent.subtractDriverMemory=true --set-json 'agent.xids="ignored=62;fatal=94"'
takes "devices, other names and unit" --set agent.strategy=devices --set unit=256MiB --set resourceNames.prefix=example.com --set resourceNames.whole=nvidia.com/gpu

# What it would refuse when it starts, helm refuses before.
refused "sampling too often" "'/agent/sampleEvery'" --set agent.sampleEvery=500ms
refused "hours, which it does not know" "'/agent/memory/grace'" --set agent.memory.grace=1h
refused "an amount that is none" "'/agent/memory/slack'" --set agent.memory.slack=lots
refused "rules for errors that are none" "'/agent/xids'" --set agent.xids=harmless=62
refused "a machine that nobody has described" "'/simulate/machine'" --set simulate.machine=dgx1
refused "nor for one node" "'/simulate/nodes/node-b'" --set simulate.machine=dgx1v --set simulate.nodes.node-b=mixedup
refused "exceptions without a rule" 'simulate.machine is empty' --set simulate.nodes.node-b=mixed
refused "a place of the driver that nobody would look at" 'agent.runtimeClassName=nvidia.*agent.strategy to cdi or devices' --set agent.driverRoot=/run/nvidia/driver
machines=$(cd "$CHART_ROOT/sim/machines" && printf '%s\n' *.yaml | sed 's/\.yaml$//' | sort)
for path in .machine.enum .nodes.additionalProperties.enum; do
  expect "helm knows every machine: simulate$path" "$machines" \
    "$(jq -r ".properties.simulate.properties${path}[]" "$CHART/values.schema.json" | grep . | sort)"
done

render
expect "runs where people said so" '{"gpushare":"true"}' "$(pod .nodeSelector)"
expect "has no privilege and no capability" 'false [] null null null' \
  "$(pod '.containers[0].securityContext as $c | "\($c.privileged // false) \($c.capabilities.add // []) \(.hostPID) \(.hostNetwork) \(.hostIPC)"')"
expect "sees only what it works with" "/proc /sys /var/lib/kubelet/device-plugins /var/lib/kubelet/pod-resources /var/lib/tessera" "$(paths)"
expect "and changes only this" "device-plugins state" "$(pod '[.containers[0].volumeMounts[] | select(.readOnly | not).name] | sort | join(" ")')"
expect_match "tells what the extender is told" '--unit=GiB --resource-prefix=aliyun.com' "$(args)"
expect "no init container where GPUs are real" null "$(pod .initContainers)"
expect "tolerates the taint of GPU nodes" nvidia.com/gpu "$(pod '.tolerations[0].key')"

render --set agent.strategy=cdi
expect "without NVIDIA's runtime, CDI needs the driver's devices" true "$(pod '.containers[0].securityContext.privileged')"
expect "and the driver, /dev and the directory of the specs" \
  "/ /dev /proc /sys /var/lib/kubelet/device-plugins /var/lib/kubelet/pod-resources /var/lib/tessera /var/run/cdi" "$(paths)"
expect "reads the driver only" true "$(pod '.containers[0].volumeMounts[] | select(.name == "driver").readOnly')"
render --set agent.strategy=cdi --set agent.runtimeClassName=nvidia
expect "under NVIDIA's runtime it does not" "null nvidia" "$(pod '"\(.containers[0].securityContext.privileged) \(.runtimeClassName)"')"
render --set agent.strategy=devices --set agent.driverRoot=/run/nvidia/driver
expect "a driver elsewhere" /run/nvidia/driver "$(pod '.volumes[] | select(.name == "driver").hostPath.path')"
expect_match "is named as the host sees it" '--driver-root=/run/nvidia/driver' "$(args)"
render --set agent.strategy=devices --set agent.privileged=false
expect "who knows better decides" null "$(pod '.containers[0].securityContext.privileged')"

render --set simulate.machine=dgx1v
expect "a simulated machine is made before the agent starts" '["--node=$(NODE_NAME)","--dir=/var/lib/tessera/sim","--machine=dgx1v"]' "$(pod '.initContainers[0].args')"
expect_match "which takes it for its own" '--driver-root=/var/lib/tessera/sim .*--sysfs-root=/var/lib/tessera/sim/sys' "$(args)"
expect "and needs nothing of the host's driver" "/proc /var/lib/kubelet/device-plugins /var/lib/kubelet/pod-resources /var/lib/tessera" "$(paths)"
render --set simulate.machine=dgx1v --set agent.driverRoot=/run/nvidia/driver
expect_match "nor of where it is" '--driver-root=/var/lib/tessera/sim' "$(args)"
render --set simulate.machine=dgx1v --set simulate.nodes.node-b=mixed
expect "some nodes may be other machines" --machine-of=node-b=mixed "$(pod '.initContainers[0].args[3]')"
render --set simulate.machine=dgx1v --set agent.strategy=cdi
expect "nor privileges, whatever the strategy" null "$(pod '.containers[0].securityContext.privileged')"
render --set unit=MiB --set resourceNames.whole=nvidia.com/gpu --set-json 'agent.extraArgs=["--x=1"]'
expect_match "unit, names and more arguments" '--unit=MiB .*--resource-whole=nvidia.com/gpu.*--x=1' "$(args)"
render --set agent.kubeletDir=/var/lib/k0s/kubelet
expect_match "another kubelet directory" '/var/lib/k0s/kubelet/device-plugins /var/lib/k0s/kubelet/pod-resources' "$(paths)"

# Accounts.
render
verbs() { the "ClusterRole/tessera-agent" "[.rules[] | select(.resources | index(\"$1\")) | .verbs[]] | unique | join(\" \")"; }
expect "reads pods and changes them, but makes and deletes none" "get list patch watch" "$(verbs pods)"
expect_match "a policy lets it change nothing of them but records" "variables.written.spec == variables.was.spec" \
  "$(the ValidatingAdmissionPolicy/tessera-own-node '.spec.validations[2].expression')"
expect "evicts nobody" "" "$(verbs pods/eviction)"
expect "no secrets" "" "$(verbs secrets)"
expect "no wildcards in any role of ours" "" "$(jq -c 'select(.kind == "ClusterRole" or .kind == "Role") | .rules[] | select((.verbs + .resources + .apiGroups) | index("*"))' "$WORK/objects")"
expect_match "a policy keeps each agent to its own node" "system:serviceaccount:tessera-system:tessera-agent" \
  "$(the ValidatingAdmissionPolicy/tessera-own-node '.spec.matchConditions[0].expression')"
expect "ConfigMaps of kube-system, for old extenders" '["get","create","patch","delete"] kube-system' "$(the Role/tessera-agent '"\(.rules[0].verbs | tojson) \(.metadata.namespace)"')"
render --set agent.unhealthyConfigMap=false
expect "without old extenders it may write none" " " "$(kinds Role | sed 's/tessera-scheduler[^ ]* *//g') $(kinds RoleBinding | sed 's/tessera-scheduler[^ ]* *//g')"
expect_match "and does not try" '--unhealthy-config-map=false' "$(args)"
takes "without that ConfigMap" --set agent.unhealthyConfigMap=false
render --set agent.hostPID=true
expect "the host's PIDs, for drivers that show processes only there" true "$(pod .hostPID)"
KUBE_VERSION=v1.29.0 render
expect "1.29 has no such policies" "" "$(kinds ValidatingAdmissionPolicy)"

render --set agent.memory.policy=evict
expect "unless it is told to" create "$(verbs pods/eviction)"

# Records.
render
expect "records: others are warned at first" '["Warn","Audit"]' "$(the ValidatingAdmissionPolicyBinding/tessera-records .spec.validationActions)"
expect_match "who may write them" "'system:serviceaccount:tessera-system:tessera-scheduler','system:serviceaccount:tessera-system:tessera-agent'\]" \
  "$(the ValidatingAdmissionPolicy/tessera-records '.spec.matchConditions[0].expression')"
expect "by every way that changes a pod's annotations" "pods pods/status pods/ephemeralcontainers pods/resize" \
  "$(the ValidatingAdmissionPolicy/tessera-records '.spec.matchConstraints.resourceRules[0].resources | join(" ")')"
render --set recordPolicy.action=deny --set-json 'recordPolicy.alsoAllowed=["system:serviceaccount:kube-system:gpushare-device-plugin"]'
expect "and refused later" '["Deny","Audit"]' "$(the ValidatingAdmissionPolicyBinding/tessera-records .spec.validationActions)"
expect_match "while a migration lasts, the old components may too" "gpushare-device-plugin" "$(the ValidatingAdmissionPolicy/tessera-records '.spec.matchConditions[0].expression')"
render --set recordPolicy.action=off
expect "or not at all" "tessera-own-node " "$(kinds ValidatingAdmissionPolicy)"

render --set agent.enabled=false
expect "without agents there is nothing of them" "" "$(jq -r '.metadata.name' "$WORK/objects" | grep agent || true)"
finish
