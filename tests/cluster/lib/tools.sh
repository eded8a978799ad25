# shellcheck shell=bash
# shellcheck disable=SC2034 # names set here are read by the scripts that source this
# The programs of the cluster, their versions, and where they are after the build. Sourced.
#
# Every program has its own folder in the cache, named after everything that determines the result:
# version, the module's go.mod and go.sum, build flags, compiler. A changed version is built into a
# new folder. Old folders are never changed, so a running cluster keeps its programs.

TOOLS_DIR=$CLUSTER_DIR/tools
GO_TOOLCHAIN=go1.26.8    # compiles everything; an installed Go of another version fetches it
GO_OLDEST=1.21           # the first version that can do so
K8S_DEFAULT=1.36
K8S_CHOICES="1.36 1.33"

# Seconds that each program takes on 2 cores with empty caches, in this order: the first program of
# a module takes longer, because it compiles what the others share. Used only to estimate the time
# left.
declare -A BUILD_SECONDS=(
  [kube-apiserver]=345 [kube-controller-manager]=75 [kube-scheduler]=7 [kubelet]=26 [kubectl]=29
  [kube-proxy]=15 [etcd]=36 [containerd]=45 [containerd-shim-runc-v2]=10 [ctr]=10 [helm]=100 [kwok]=150
)
KUBERNETES_PROGRAMS="kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl kube-proxy"
ALL_PROGRAMS="$KUBERNETES_PROGRAMS etcd containerd containerd-shim-runc-v2 ctr helm kwok"

# tool_module PROGRAM: prints the folder in tools/ whose go.mod pins it. Kubernetes has several.
tool_module() {
  case $1 in
    kube*) printf 'kubernetes-%s' "${K8S:-$K8S_DEFAULT}" ;;
    containerd* | ctr) printf containerd ;;
    *) printf '%s' "$1" ;;
  esac
}

# tool_package PROGRAM: prints the Go package that contains its main().
tool_package() {
  case $1 in
    kube*) printf 'k8s.io/kubernetes/cmd/%s' "$1" ;;
    containerd* | ctr) printf 'github.com/containerd/containerd/v2/cmd/%s' "$1" ;;
    etcd) printf go.etcd.io/etcd/server/v3 ;;
    helm) printf helm.sh/helm/v4/cmd/helm ;;
    kwok) printf sigs.k8s.io/kwok/cmd/kwok ;;
    *) die "$1 is not a program of the test cluster; it has: $ALL_PROGRAMS" ;;
  esac
}

# tool_version PROGRAM: prints the version, from the one `require` line in go.mod without a block.
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
  die "$mod: has no line \"require MODULE VERSION\""
}

# tool_ldflags PROGRAM: Kubernetes programs must report their version, because Helm and kubectl
# check it.
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

# learn_tools: computes all folders once, for scripts that use them often.
learn_tools() {
  local program
  TOOL_HOME_OF=()
  for program in $ALL_PROGRAMS; do TOOL_HOME_OF[$program]=$(tool_home "$program"); done
}

# tool_home PROGRAM: prints the folder in the cache for exactly this build of it.
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

# missing_tools PROGRAM...: prints those that are not in the cache yet.
missing_tools() {
  local program
  for program; do
    tool_built "$program" || printf '%s\n' "$program"
  done
}

# find_go: prints the path of a usable `go`. If there is none, reports why and returns 1.
# scripts/setup installs one in $TESSERA_CACHE/go if the machine has none or an old one.
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

# programs_for PURPOSE: prints the programs for demo (no simulated nodes) or test (everything).
programs_for() {
  local program
  for program in $ALL_PROGRAMS; do
    case $1:$program in
      demo:kwok) ;;
      *) printf '%s\n' "$program" ;;
    esac
  done
}
