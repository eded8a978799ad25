# shellcheck shell=bash
# Functions for tests that install the chart on a real cluster. Source this file. Needs the programs
# of the release build (TESSERA_BIN).

CHART_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# shellcheck source=../../cluster/lib/api.sh
source "$CHART_ROOT/tests/cluster/lib/api.sh"
# shellcheck source=../readme.sh
source "$CHART_ROOT/tests/chart/readme.sh"
# shellcheck source=../evidence.sh
source "$CHART_ROOT/tests/chart/evidence.sh"
CHART=$CHART_ROOT/deploy/helm/tessera
RELEASE_SPACE=tessera-system
SCHEDULER_IMAGE=tessera.local/kube-scheduler

helm() { cluster helm "$@"; }
in_space() { kubectl -n "$RELEASE_SPACE" "$@"; }

# chart_cluster_start UP-ARGUMENTS...: starts a cluster whose nodes have the images of Tessera and
# of kube-scheduler.
chart_cluster_start() {
  local bin=${TESSERA_BIN:-$CHART_ROOT/build/release/bin}
  cluster_require_or_skip helm
  [[ -x $bin/tessera-extender ]] || die "$bin/tessera-extender is missing; \"make build\" builds it"
  export TESSERA=$bin/tessera
  cluster_start "$@"
  # The cluster's own kube-scheduler does not run in a pod, so there is no image that the chart
  # could use.
  mkdir -p "$S/tmp/scheduler-root/usr/local/bin"
  cp "$(tool_path kube-scheduler)" "$S/tmp/scheduler-root/usr/local/bin/"
  make_image "$SCHEDULER_IMAGE:$(tool_version kube-scheduler)" "$S/tmp/scheduler-root" "$S/tmp/scheduler.tar"
  cluster load-image "$S/tmp/scheduler.tar" "$(tessera_image "$bin")"
}

# tessera_image BIN: prints the path of the image archive. Builds it again only if a program is
# newer.
tessera_image() {
  local out archive
  out=$(dirname "$1")/images
  mkdir -p "$out"
  (
    flock 9
    archive=$(find "$out" -maxdepth 1 -name 'tessera-*.tar' -print -quit)
    if [[ -z $archive || -n $(find "$1" "$1/../lib" "$CHART_ROOT/scripts/images" -type f -newer "$archive" -print -quit) ]]; then
      rm -f "$out"/tessera-*.tar
      "$CHART_ROOT/scripts/images" build --bin "$1" --out "$out" >&2
    fi
  ) 9>"$out/.lock"
  find "$out" -maxdepth 1 -name 'tessera-*.tar'
}

# kube_scheduler_pod: creates a kube-scheduler pod on a simulated node, as kubeadm, kind and
# minikube have one. The chart takes the image name from it.
kube_scheduler_pod() {
  jq -cn --arg image "$SCHEDULER_IMAGE:$(tool_version kube-scheduler)@sha256:$(printf '%064d' 1)" '{apiVersion: "v1", kind: "Pod",
    metadata: {name: "kube-scheduler-sim-0001", namespace: "kube-system", labels: {component: "kube-scheduler", tier: "control-plane"}},
    spec: {nodeName: "sim-0001", containers: [{name: "kube-scheduler", image: $image}]}}' | kubectl create -f - >/dev/null
}

# chart install|upgrade VALUES...: installs or upgrades the chart. The scheduler pods run on the
# real node, never on a simulated one.
chart() {
  helm "$1" tessera "$CHART" -n "$RELEASE_SPACE" --create-namespace --set 'nodeSelector.kubernetes\.io/hostname=node-a' "${@:2}"
}

# gpu_pod NAME LIMITS-JSON [MORE-METADATA-JSON]: prints a pod that requests GPUs and sleeps.
gpu_pod() {
  jq -cn --arg name "$1" --argjson limits "$2" --argjson more "${3:-"{}"}" --arg image "$BUSYBOX_IMAGE" '{
    apiVersion: "v1", kind: "Pod", metadata: ({name: $name} + $more), spec: {terminationGracePeriodSeconds: 0, containers: [
      {name: "main", image: $image, command: ["sleep", "3600"], resources: {limits: $limits}}]}}'
}

# may ACCOUNT VERB RESOURCE...: prints whether RBAC allows it to this account of the chart.
may() { kubectl auth can-i "${@:2}" --as="system:serviceaccount:$RELEASE_SPACE:$1" 2>/dev/null || true; }

record() { kubectl get pod "$1" -o 'jsonpath={.metadata.annotations.tessera\.io/allocation}'; }
