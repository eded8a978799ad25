#!/usr/bin/env bash
# Checks what the chart renders for the agents: least privilege by default, and more only if a
# strategy needs it.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
require_tools_or_skip
agent=DaemonSet/tessera-agent
pod() { the $agent ".spec.template.spec | $1"; }
paths() { pod '[.volumes[].hostPath.path] | sort | join(" ")'; }
args() { pod '.containers[0].args | join(" ")'; }

# takes WHAT VALUES...: checks that the agent itself accepts the arguments that the chart renders.
program=${TESSERA_BIN:-$CHART_ROOT/build/release/bin}/tessera-agent
takes() { # what, values...
  local what=$1 out
  local -a given
  shift
  render "$@"
  [[ -x $program ]] || { say "$program is missing: cannot check whether the agent accepts the arguments: $what" && return; }
  mapfile -t given < <(pod '.containers[0].args[]' | sed 's/\$(NODE_NAME)/node-a/')
  if out=$("$program" --check-config "${given[@]}" 2>&1); then pass; else fail "the agent accepts the arguments: $what" "$out"; fi
}
takes "default values"
takes "simulated GPUs" --set simulate.machine=dgx1v --set log.level=debug --set log.format=json
takes "memory policy and sampling" --set agent.memory.policy=evict --set agent.memory.grace=5m --set agent.memory.slack=512Mi --set agent.sampleEvery=30s
takes "amounts at one end of their ranges" --set agent.sampleEvery=1000ms --set agent.memory.grace=999m --set agent.memory.slack=999Gi --set-json 'agent.xids="ignored=all; fatal = 94, 99999;"'
takes "amounts at the other end" --set agent.sampleEvery=9999s --set agent.memory.grace=0s --set-string agent.memory.slack=0
takes "cdi" --set agent.strategy=cdi --set agent.driverRoot=/run/nvidia/driver --set agent.subtractDriverMemory=true --set-json 'agent.xids="ignored=62;fatal=94"'
takes "devices, with other resource names and another unit" --set agent.strategy=devices --set unit=256MiB --set resourceNames.prefix=example.com --set resourceNames.whole=nvidia.com/gpu

# Restarts: the next agent runs before the old one ends, and the extender watches the agents.
render
expect "the next agent of a node starts before the old one ends" "1 0" "$(the $agent '.spec.updateStrategy.rollingUpdate | "\(.maxSurge) \(.maxUnavailable)"')"
expect "the extender selects the agents by the labels of the DaemonSet" \
  "$(the $agent '.spec.selector.matchLabels | to_entries | map("\(.key)=\(.value)") | sort | join(",")')" \
  "$(the ConfigMap/tessera-scheduler '.data["extender.yaml"]' | sed -n 's/^agentSelector: "\(.*\)"$/\1/p' | tr , '\n' | sort | paste -sd ,)"
render --set agent.enabled=false
expect "without agents, the extender watches none" "" "$(the ConfigMap/tessera-scheduler '.data["extender.yaml"]' | grep agentSelector || true)"

# Values that the agent would reject at its start must already be rejected by helm.
refused "a sampling interval below one second is rejected" "'/agent/sampleEvery'" --set agent.sampleEvery=500ms
refused "a grace period in hours is rejected" "'/agent/memory/grace'" --set agent.memory.grace=1h
refused "a slack that is no amount is rejected" "'/agent/memory/slack'" --set agent.memory.slack=lots
refused "invalid XID rules are rejected" "'/agent/xids'" --set agent.xids=harmless=62
refused "an unknown machine is rejected" "'/simulate/machine'" --set simulate.machine=dgx1
refused "an unknown machine for one node is rejected" "'/simulate/nodes/node-b'" --set simulate.machine=dgx1v --set simulate.nodes.node-b=mixedup
refused "machines for single nodes without simulate.machine are rejected" 'simulate.machine is empty' --set simulate.nodes.node-b=mixed
refused "a driver root that the strategy would ignore is rejected" 'agent.runtimeClassName=nvidia.*agent.strategy to cdi or devices' --set agent.driverRoot=/run/nvidia/driver
machines=$(cd "$CHART_ROOT/sim/machines" && printf '%s\n' *.yaml | sed 's/\.yaml$//' | sort)
for path in .machine.enum .nodes.additionalProperties.enum; do
  expect "the schema lists every machine: simulate$path" "$machines" \
    "$(jq -r ".properties.simulate.properties${path}[]" "$CHART/values.schema.json" | grep . | sort)"
done

render
expect "the agent runs only on labelled nodes" '{"gpushare":"true"}' "$(pod .nodeSelector)"
expect "the agent has no privileges, no capabilities and no host namespaces" 'false [] null null null' \
  "$(pod '.containers[0].securityContext as $c | "\($c.privileged // false) \($c.capabilities.add // []) \(.hostPID) \(.hostNetwork) \(.hostIPC)"')"
expect "the agent mounts only the host directories that it needs" "/proc /sys /var/lib/kubelet/device-plugins /var/lib/kubelet/pod-resources /var/lib/tessera" "$(paths)"
expect "the agent has write access to only two of them" "device-plugins state" "$(pod '[.containers[0].volumeMounts[] | select(.readOnly | not).name] | sort | join(" ")')"
expect_match "the agent gets the same unit and resource names as the extender" '--unit=GiB --resource-prefix=aliyun.com' "$(args)"
expect "there is no init container without simulated GPUs" null "$(pod .initContainers)"
expect "the agent tolerates the taint of GPU nodes" nvidia.com/gpu "$(pod '.tolerations[0].key')"

render --set agent.strategy=cdi
expect "cdi: without NVIDIA's runtime, the agent is privileged" true "$(pod '.containers[0].securityContext.privileged')"
expect "cdi: the agent also mounts the driver's directory, /dev and the CDI directory, and not the whole host" \
  "/dev /proc /sys /usr /var/lib/kubelet/device-plugins /var/lib/kubelet/pod-resources /var/lib/tessera /var/run/cdi" "$(paths)"
driver() { pod '[.volumes[] | select(.name | startswith("driver"))] as $v | [.containers[0].volumeMounts[] | select(.name | startswith("driver")) |
  .name as $n | ($v[] | select(.name == $n).hostPath | "\(.path) \(.type)") + " \(.mountPath) \(.readOnly)"] | join("; ")'; }
expect "cdi: the driver is mounted read-only, below the directory that the agent searches" "/usr Directory /host/driver/usr true" "$(driver)"
expect_match "cdi: the agent searches there" '--driver-root=/ --driver-root-ctr-path=/host/driver ' "$(args)"
render --set agent.strategy=cdi --set 'agent.driverDirectories={/usr,/opt/nvidia}'
expect "agent.driverDirectories are mounted instead" "/usr Directory /host/driver/usr true; /opt/nvidia Directory /host/driver/opt/nvidia true" "$(driver)"
render --set agent.strategy=cdi --set agent.driverRoot=/run/nvidia/driver/ --set 'agent.driverDirectories={/usr}'
expect "agent.driverDirectories are below agent.driverRoot" "/run/nvidia/driver/usr Directory /host/driver/usr true" "$(driver)"
refused "a driver directory that leads out of the driver root is rejected" "'/agent/driverDirectories/0'" --set agent.strategy=cdi --set 'agent.driverDirectories={/../etc}'
render --set agent.strategy=cdi --set agent.runtimeClassName=nvidia
expect "cdi: under NVIDIA's runtime, the agent is not privileged" "null nvidia" "$(pod '"\(.containers[0].securityContext.privileged) \(.runtimeClassName)"')"
render --set agent.strategy=devices --set agent.driverRoot=/run/nvidia/driver
expect "devices: agent.driverRoot is mounted" "/run/nvidia/driver Directory /host/driver true" "$(driver)"
expect_match "devices: the agent gets the path of the driver on the host" '--driver-root=/run/nvidia/driver' "$(args)"
render --set agent.strategy=devices --set agent.privileged=false
expect "agent.privileged=false overrides the chart's choice" null "$(pod '.containers[0].securityContext.privileged')"

render --set simulate.machine=dgx1v
expect "an init container creates the simulated machine" '["--node=$(NODE_NAME)","--dir=/var/lib/tessera/sim","--machine=dgx1v"]' "$(pod '.initContainers[0].args')"
expect_match "the agent uses the driver and /sys of the simulated machine" '--driver-root=/var/lib/tessera/sim .*--sysfs-root=/var/lib/tessera/sim/sys' "$(args)"
expect "with simulated GPUs, the agent mounts nothing of the host's driver" "/proc /var/lib/kubelet/device-plugins /var/lib/kubelet/pod-resources /var/lib/tessera" "$(paths)"
render --set simulate.machine=dgx1v --set agent.driverRoot=/run/nvidia/driver
expect_match "with simulated GPUs, agent.driverRoot has no effect" '--driver-root=/var/lib/tessera/sim' "$(args)"
render --set simulate.machine=dgx1v --set simulate.nodes.node-b=mixed
expect "single nodes can simulate another machine" --machine-of=node-b=mixed "$(pod '.initContainers[0].args[3]')"
render --set simulate.machine=dgx1v --set agent.strategy=cdi
expect "with simulated GPUs, the agent is not privileged with cdi either" null "$(pod '.containers[0].securityContext.privileged')"
render --set unit=MiB --set resourceNames.whole=nvidia.com/gpu --set-json 'agent.extraArgs=["--x=1"]'
expect_match "unit, resource names and extra arguments reach the agent" '--unit=MiB .*--resource-whole=nvidia.com/gpu.*--x=1' "$(args)"
render --set agent.kubeletDir=/var/lib/k0s/kubelet
expect_match "agent.kubeletDir changes the mounted directories" '/var/lib/k0s/kubelet/device-plugins /var/lib/k0s/kubelet/pod-resources' "$(paths)"

# Permissions of the agent's account.
render
verbs() { the "ClusterRole/tessera-agent" "[.rules[] | select(.resources | index(\"$1\")) | .verbs[]] | unique | join(\" \")"; }
expect "the agent can read and patch pods, but not create or delete them" "get list patch watch" "$(verbs pods)"
expect "by default, the agent cannot evict pods" "" "$(verbs pods/eviction)"
expect "the agent cannot read Secrets" "" "$(verbs secrets)"
expect "no role of the chart has wildcards" "" "$(jq -c 'select(.kind == "ClusterRole" or .kind == "Role") | .rules[] | select((.verbs + .resources + .apiGroups) | index("*"))' "$WORK/objects")"
expect_match "a policy restricts each agent to its own node" "system:serviceaccount:tessera-system:tessera-agent" \
  "$(the ValidatingAdmissionPolicy/tessera-own-node '.spec.matchConditions[0].expression')"
expect "the agent can write ConfigMaps in kube-system, for gpushare's extender" '["get","create","patch","delete"] kube-system' "$(the Role/tessera-agent '"\(.rules[0].verbs | tojson) \(.metadata.namespace)"')"
render --set agent.unhealthyConfigMap=false
expect "with unhealthyConfigMap=false, the chart grants no such permission" " " "$(kinds Role | sed 's/tessera-\(scheduler\|viewer\)[^ ]* *//g') $(kinds RoleBinding | sed 's/tessera-scheduler[^ ]* *//g')"
expect_match "with unhealthyConfigMap=false, the agent does not write the ConfigMap" '--unhealthy-config-map=false' "$(args)"
takes "unhealthyConfigMap=false" --set agent.unhealthyConfigMap=false
render --set agent.hostPID=true
expect "agent.hostPID=true gives the agent the host's PID namespace" true "$(pod .hostPID)"
KUBE_VERSION=v1.29.0 render
expect "Kubernetes 1.29 has no such policies" "" "$(kinds ValidatingAdmissionPolicy)"

render --set agent.memory.policy=evict
expect "with memory.policy=evict, the agent can evict pods" create "$(verbs pods/eviction)"

# The policies are made from files/keys.json; cluster/privileges.sh shows what they reject.
render
keys() { jq -r "$1 | select(.value | index(\"$2\")).key | sub(\"\\\\*\$\"; \"\")" "$CHART/files/keys.json" | sort; }
# quoted POLICY VARIABLE: prints the quoted words in an expression of the policy.
quoted() { the "ValidatingAdmissionPolicy/$1" ".spec.variables[] | select(.name == \"$2\").expression" | grep -o "'[^']*'" | tr -d "'" | sort -u; }
for writer in own-node:agent extender:extender; do
  for map in Annotations Labels Conditions; do
    expect "the policy ${writer%:*} allows exactly the ${map,,} of files/keys.json" \
      "$(keys "(.nodes, .pods).${map,,} // {} | to_entries[]" "${writer#*:}")" "$(quoted "tessera-${writer%:*}" "foreign$map")"
  done
done
expect "the table has keys" "GPUsHealthy tessera.io/allocation" "$(keys '.nodes.conditions | to_entries[]' agent) $(keys '.pods.annotations | to_entries[]' agent | grep tessera)"
expect "records: the policy protects every annotation of files/keys.json" "$(jq -r '(.nodes, .pods).annotations | keys[] | sub("\\*$"; "")' "$CHART/files/keys.json" | sort)" "$(quoted tessera-records changed)"

# scripts/clean-nodes removes what is in the table. The expression of its sed prints "KEY-".
removes=$(sed -nE "s/.*sed -nE '(s\/\^\(tessera.*)'\).*/\1/p" "$CHART_ROOT/scripts/clean-nodes")
on_nodes=$(jq -r '.nodes.annotations | keys[] | sub("\\*$"; "0_1")' "$CHART/files/keys.json")
expect "clean-nodes removes every annotation of files/keys.json" "$on_nodes" "$(sed -nE "$removes" <<<"$on_nodes" | sed 's/-$//')"

# The policy for records. install.sh and migrate.sh show what auto does in a cluster.
exempt() { the ValidatingAdmissionPolicy/tessera-records '[.spec.matchConditions[].expression] | join(" ")'; }
expect "records: if helm cannot see the cluster, other writers only get a warning" '["Warn","Audit"]' "$(the ValidatingAdmissionPolicyBinding/tessera-records .spec.validationActions)"
expect_match "records: the agent is exempt from the policy" "in \['system:serviceaccount:tessera-system:tessera-agent'\]\)" "$(exempt)"
expect_match "records: the extender is exempt only for Bindings and nodes" "== 'system:serviceaccount:tessera-system:tessera-scheduler' && \(request.resource.resource in \['nodes', 'bindings'\]" "$(exempt)"
expect "records: the policy covers every way to change the annotations of a pod" "pods pods/status pods/ephemeralcontainers pods/resize" \
  "$(the ValidatingAdmissionPolicy/tessera-records '.spec.matchConstraints.resourceRules[0].resources | join(" ")')"
for action in audit:Warn deny:Deny; do
  render --set "recordPolicy.action=${action%:*}" --set-json 'recordPolicy.alsoAllowed=["system:serviceaccount:kube-system:gpushare-device-plugin"]'
  expect "records: recordPolicy.action=${action%:*} overrides auto" "[\"${action#*:}\",\"Audit\"]" "$(the ValidatingAdmissionPolicyBinding/tessera-records .spec.validationActions)"
done
expect_match "records: alsoAllowed exempts gpushare's plugin during a migration" "gpushare-device-plugin" "$(exempt)"
render --set recordPolicy.action=off
expect "records: with action=off, there is no such policy" "tessera-extender tessera-own-node tessera-requests " "$(kinds ValidatingAdmissionPolicy)"
refused "records: an unknown action is rejected" "'/recordPolicy/action'" --set recordPolicy.action=maybe

render --set agent.enabled=false
expect "with agent.enabled=false, no object of the agent is left" "" "$(jq -r '.metadata.name' "$WORK/objects" | grep agent || true)"
finish
