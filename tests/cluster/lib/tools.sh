# shellcheck shell=bash
# shellcheck disable=SC2034 # names set here are read by the scripts that source this
# Which programs the cluster is made of, at which versions, and where they are once built. Sourced.
#
# Every program has a folder of its own in the cache, named after everything that decides its bytes:
# version, the module's go.mod and go.sum, build flags, compiler. A changed pin is a new folder; old ones
# are never touched, so a running cluster keeps its programs.

TOOLS_DIR=$CLUSTER_DIR/tools
GO_TOOLCHAIN=go1.26.8    # what everything is compiled with; Go itself fetches it where another Go is installed
GO_OLDEST=1.21           # the first Go that can do so
K8S_DEFAULT=1.36
K8S_CHOICES="1.36 1.33"

# Seconds each program takes on 2 cores with empty caches, in this order (the first of a module pays for
# what its siblings share). Only for the estimate of the time left.
declare -A BUILD_SECONDS=(
  [kube-apiserver]=345 [kube-controller-manager]=75 [kube-scheduler]=7 [kubelet]=26 [kubectl]=29
  [kube-proxy]=15 [etcd]=36 [containerd]=45 [containerd-shim-runc-v2]=10 [ctr]=10 [helm]=100 [kwok]=150
)
KUBERNETES_PROGRAMS="kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl kube-proxy"
ALL_PROGRAMS="$KUBERNETES_PROGRAMS etcd containerd containerd-shim-runc-v2 ctr helm kwok"

# tool_module PROGRAM: the folder below tools/ whose go.mod pins it. Kubernetes comes in several versions.
tool_module() {
  case $1 in
    kube*) printf 'kubernetes-%s' "${K8S:-$K8S_DEFAULT}" ;;
    containerd* | ctr) printf containerd ;;
    *) printf '%s' "$1" ;;
  esac
}

# tool_package PROGRAM: the Go package that holds its main().
tool_package() {
  case $1 in
    kube*) printf 'k8s.io/kubernetes/cmd/%s' "$1" ;;
    containerd* | ctr) printf 'github.com/containerd/containerd/v2/cmd/%s' "$1" ;;
    etcd) printf go.etcd.io/etcd/server/v3 ;;
    helm) printf helm.sh/helm/v4/cmd/helm ;;
    kwok) printf sigs.k8s.io/kwok/cmd/kwok ;;
    *) die "$1: not a program of the test cluster; there are: $ALL_PROGRAMS" ;;
  esac
}

# tool_version PROGRAM: read from the one `require` line we wrote ourselves.
tool_version() {
  local mod line
  mod=$TOOLS_DIR/$(tool_module "$1")/go.mod
  [[ -r $mod ]] || die "$mod is missing: $1 cannot be built from this checkout"
  while read -r line; do
    if [[ $line =~ ^require\ [^\ ]+\ (v[^\ ]+)$ ]]; then
      printf '%s' "${BASH_REMATCH[1]}"
      return
    fi
  done <"$mod"
  die "$mod: no line \"require MODULE VERSION\" of its own"
}

# tool_ldflags PROGRAM: programs must report their version, or Helm and kubectl judge the cluster wrongly.
tool_ldflags() {
  local version minor x=k8s.io/component-base/version
  case $1 in
    kube*)
      version=$(tool_version "$1")
      minor=${version#v1.}
      printf -- '-s -w -X %s.gitVersion=%s -X %s.gitMajor=1 -X %s.gitMinor=%s' \
        "$x" "$version" "$x" "$x" "${minor%%.*}"
      ;;
    *) printf -- '-s -w' ;;
  esac
}

declare -A TOOL_HOME_OF # filled by learn_tools

# learn_tools: works all folders out once, for scripts that ask often.
learn_tools() {
  local program
  TOOL_HOME_OF=()
  for program in $ALL_PROGRAMS; do TOOL_HOME_OF[$program]=$(tool_home "$program"); done
}

# tool_home PROGRAM: the folder in the cache that holds exactly this build of it.
tool_home() {
  local version hash module
  if [[ -n ${TOOL_HOME_OF[$1]:-} ]]; then
    printf '%s' "${TOOL_HOME_OF[$1]}"
    return
  fi
  version=$(tool_version "$1")
  module=$(tool_module "$1")
  hash=$({
    cat "$TOOLS_DIR/$module/go.mod" "$TOOLS_DIR/$module/go.sum"
    printf '%s\n' "$(tool_package "$1")" "$(tool_ldflags "$1")" "$GO_TOOLCHAIN" "$(uname -m)"
  } | sha256sum)
  printf '%s/tools/%s-%s-%s' "$TESSERA_CACHE" "$1" "$version" "${hash:0:12}"
}

tool_path() { printf '%s/%s' "$(tool_home "$1")" "$1"; }

tool_built() { [[ -x $(tool_path "$1") ]]; }

# missing_tools PROGRAM...: those that are not in the cache yet.
missing_tools() {
  local program
  for program; do
    tool_built "$program" || printf '%s\n' "$program"
  done
}

# find_go: prints a usable `go`, or says what is wrong. $TESSERA_CACHE/go is where scripts/setup puts one
# on machines that have none or an old one.
find_go() {
  local go version major minor old=
  for go in "${TESSERA_GO:-}" "$TESSERA_CACHE/go/bin/go" "$(command -v go || true)" /usr/local/go/bin/go; do
    [[ -n $go && -x $go ]] || continue
    version=$(GOTOOLCHAIN=local "$go" env GOVERSION 2>/dev/null) || continue
    [[ $version =~ ^go([0-9]+)\.([0-9]+) ]] || continue
    major=${BASH_REMATCH[1]} minor=${BASH_REMATCH[2]}
    if ((major > 1 || minor >= ${GO_OLDEST#1.})); then
      printf '%s' "$go"
      return
    fi
    old="$go is $version"
  done
  if [[ -n $old ]]; then
    warn "Go is too old: $old, the test cluster's programs need $GO_OLDEST or newer; run scripts/setup"
  else
    warn "Go is missing: the test cluster's programs are built with it; run scripts/setup, or set TESSERA_GO"
  fi
  return 1
}

# programs_for PURPOSE: demo (no simulated nodes), test (everything).
programs_for() {
  local program
  for program in $ALL_PROGRAMS; do
    case $1:$program in
      demo:kwok) ;;
      *) printf '%s\n' "$program" ;;
    esac
  done
}
