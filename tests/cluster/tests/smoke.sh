#!/usr/bin/env bash
# Two real nodes: pods are scheduled and run, and reach each other and the API server through its
# Service. Logs, exec, images and the kubeconfig for programs outside work.
set -euo pipefail
# shellcheck source=../lib/api.sh
source "$(dirname "$0")/../lib/api.sh"

cluster_require_or_skip kubelet
cluster_start --nodes 2

# pod_on NODE: a pod with kubectl of the machine, so that it can be an API client.
pod_on() {
  cat <<EOF
---
apiVersion: v1
kind: Pod
metadata: {name: on-$1, labels: {app: smoke}}
spec:
  nodeSelector: {kubernetes.io/hostname: $1}
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: $BUSYBOX_IMAGE
    command: [sh, -c, "echo hello from \$NODE; mkdir /www; echo page of \$NODE > /www/index.html; exec httpd -f -p 8080 -h /www"]
    env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
    resources: {requests: {cpu: 10m, memory: 16Mi}}
    volumeMounts: [{name: tools, mountPath: /tools}]
  volumes:
  - name: tools
    hostPath: {path: $(dirname "$(tool_path kubectl)")}
EOF
}

# other_page FROM TO: prints what the pod on FROM gets from the pod on TO. (wget -T crashes in
# Debian's busybox, hence timeout.)
other_page() {
  kubectl exec "on-$1" -- timeout 5 wget -qO- "http://$(kubectl get pod "on-$2" -o 'jsonpath={.status.podIP}'):8080/"
}

for node in node-a node-b; do pod_on "$node"; done | kubectl apply -f - >/dev/null
for node in node-a node-b; do
  try_wait_for 30 "a pod runs on $node" pod_is "on-$node" Running || continue
  expect "its log can be read" "hello from $node" "$(kubectl logs "on-$node")"
  expect "a command runs in it" "$node" "$(kubectl exec "on-$node" -- env | sed -n s/^NODE=//p)"
  # Without a kubeconfig, kubectl uses the ServiceAccount of the pod, its CA and the address of the
  # Service.
  expect "it reaches the API server by its Service as its ServiceAccount" "system:serviceaccount:default:default" \
    "$(kubectl exec "on-$node" -- /tools/kubectl auth whoami -o 'jsonpath={.status.userInfo.username}')"
done
expect "node-a's pod reaches node-b's" "page of node-b" "$(other_page node-a node-b)"
expect "node-b's pod reaches node-a's" "page of node-a" "$(other_page node-b node-a)"

check "no warning about any pod" prints_nothing \
  kubectl get events --field-selector type=Warning,involvedObject.kind=Pod -o 'jsonpath={range .items[*]}{.message}{"\n"}{end}'
expect_match "there is no DNS, and lookups fail at once" "real[[:space:]]+0m [0-3]\." \
  "$(kubectl exec on-node-a -- time ping -c1 page.default.svc.cluster.local 2>&1 || true)"

kubectl expose pod on-node-b --name=page --port=80 --target-port=8080 >/dev/null
service_page() {
  local ip
  ip=$(kubectl get service page -o 'jsonpath={.spec.clusterIP}')
  [[ $(cluster exec -- curl -s --max-time 2 "http://$ip/") == "page of node-b" ]]
}
wait_for 20 "the network of node-a reaches a Service with its pod on node-b" service_page

outside_nodes() {
  local program
  program=$(tool_path kubectl)
  KUBECONFIG=$(cluster kubeconfig "$@") "$program" get nodes --no-headers | awk '{print $1, $2}' | tr '\n' ' '
}
expect "the kubeconfig works outside" "node-a Ready node-b Ready " "$(outside_nodes)"
expect "the kubeconfig with a token works outside" "node-a Ready node-b Ready " "$(outside_nodes --token)"
expect "exec enters the given node" "node-b" "$(cluster exec --node node-b -- hostname)"
expect "each node has its own device-plugin directory" "$S/node-b/var/lib/kubelet/device-plugins/kubelet.sock" \
  "$(find "$S/node-b/var/lib/kubelet/device-plugins" -name kubelet.sock)"

# A test that starts a program with exec ends it by killing that exec.
"$CLUSTER_DIR/cluster" --name "$CLUSTER" exec -- sleep 4711 &
program=$!
sleeps() { cluster exec -- pgrep -f '^sleep 4711$' >/dev/null; }
wait_for 10 "a program started with exec runs" sleeps
kill "$program"
wait "$program" 2>/dev/null || true
sleep_has_ended() { ! sleeps; }
wait_for 10 "the program ends with its exec" sleep_has_ended

image=$S/tmp/own.tar root=$S/tmp/own
mkdir -p "$root"
cp "$(command -v busybox)" "$root/sh"
cluster make-image tessera.local/own:1 "$root" "$image" /sh
cluster load-image "$image"
kubectl run own --image=tessera.local/own:1 --restart=Never --command -- /sh -c 'echo own image' >/dev/null
wait_for 30 "a pod of a loaded image runs to its end" pod_is own Succeeded
expect "its log has the expected text" "own image" "$(kubectl logs own)"

check "status finds nothing wrong" cluster status
finish
