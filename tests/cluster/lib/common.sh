# shellcheck shell=bash
# shellcheck disable=SC2034 # names set here are read by the scripts that source this
# Functions and paths that all scripts of the test cluster use. Sourced.

CLUSTER_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # not always in root's PATH
TESSERA_CACHE=${TESSERA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera}

# Every cluster has a directory below this one. It must not be below /run or /var/lib/kubelet,
# because the nodes have private versions of these and would not see their own state.
STATE_ROOT=${TESSERA_STATE:-/tmp/tessera-$EUID}

say() { printf '%s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }

# die MESSAGE: the message names the thing, what is wrong with it and what to do.
die() {
  warn "${0##*/}: $*"
  exit 1
}

now_ms() { local t=${EPOCHREALTIME/[.,]/}; printf '%s' "${t%???}"; }

# seconds_since MS: prints the elapsed time in seconds, with one decimal.
seconds_since() {
  local ms=$(($(now_ms) - $1))
  printf '%d.%d' $((ms / 1000)) $((ms % 1000 / 100))
}

# process_start PID: prints the clock tick at which the process started. Together with the pid it
# identifies a process; a pid alone may have been reused.
process_start() {
  local line
  read -r line 2>/dev/null <"/proc/$1/stat" || return 1
  line=${line##*) } # the name of the program may contain spaces
  # shellcheck disable=SC2086
  set -- $line
  printf '%s' "${20}"
}

# same_process PID START: whether that process still exists and is not a zombie.
same_process() {
  local line
  [[ -n $1 && -n $2 ]] || return 1
  read -r line 2>/dev/null <"/proc/$1/stat" || return 1
  line=${line##*) }
  # shellcheck disable=SC2086
  set -- "$2" $line
  [[ ${21} == "$1" && $2 != Z ]]
}

# valid_cluster_name NAME: a name becomes a directory, a cgroup and part of socket paths.
valid_cluster_name() { [[ $1 =~ ^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$ ]]; }

# use_cluster NAME: sets CLUSTER and S (its state directory).
use_cluster() {
  valid_cluster_name "$1" || die "cluster name \"$1\": use up to 32 lower-case letters, digits and dashes"
  CLUSTER=$1
  S=$STATE_ROOT/$CLUSTER
}
