# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# Loads the whole library. Scripts inside and outside of a cluster source it.

library=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../../../scripts/progress.sh
source "$library/../../../scripts/progress.sh"
# shellcheck source=common.sh
source "$library/common.sh"
# shellcheck source=tools.sh
source "$library/tools.sh"
# shellcheck source=cgroups.sh
source "$library/cgroups.sh"
# shellcheck source=host.sh
source "$library/host.sh"
# shellcheck source=namespace.sh
source "$library/namespace.sh"
# shellcheck source=certs.sh
source "$library/certs.sh"
# shellcheck source=images.sh
source "$library/images.sh"
# shellcheck source=controlplane.sh
source "$library/controlplane.sh"
# shellcheck source=node.sh
source "$library/node.sh"
# shellcheck source=kwok.sh
source "$library/kwok.sh"
# shellcheck source=parts.sh
source "$library/parts.sh"
# shellcheck source=health.sh
source "$library/health.sh"
unset library

# load_cluster_settings: loads the settings that `up` wrote, for scripts inside the cluster.
load_cluster_settings() {
  S=${TESSERA_CLUSTER_STATE:?is not set: only the driver may start this script}
  # shellcheck source=/dev/null
  source "$S/settings"
}

# cluster_settings: prints the settings in the form that load_cluster_settings reads.
cluster_settings() {
  local name
  for name in CLUSTER K8S NODES SIM_NODES SIM_MACHINE SCHEDULER_CONFIG KUBELET_CONFIG ADMISSION_CONFIG CNI_BIN; do
    printf '%s=%q\n' "$name" "${!name}"
  done
}
