#!/usr/bin/env bash
# `down` restores the machine: after a normal run, after kill -9 of the driver or its parent, after
# kill -9 of an unfinished `up` (also if another `up` follows), and with a state directory from
# before a reboot.
set -euo pipefail
# shellcheck source=../lib/api.sh
source "$(dirname "$0")/../lib/api.sh"

cluster_require_or_skip kubelet
work=$(mktemp -d /tmp/leaves-nothing.XXXXXX)
export TESSERA_STATE=$work/state
STATE_ROOT=$TESSERA_STATE

# Sysctls that change by themselves on any machine.
VOLATILE='^(fs\.(dentry-state|file-nr|inode-nr|inode-state|aio-nr|quota\.)|kernel\.(ns_last_pid|random\.|pty\.nr|perf_event_max_sample_rate)|net\.netfilter\.nf_conntrack_count|dev\.cdrom)'

# known_keys: filters "KEY = VALUE" lines: keeps keys that existed before the first cluster. A
# kernel module that was loaded since then (connection tracking) adds keys.
known_keys() {
  if [[ -e $work/before ]]; then awk 'NR == FNR { known[$1]; next } $1 in known' "$work/before" -; else cat; fi
}

# snapshot: prints everything on the machine that a cluster could have changed. Other clusters that
# run at the same time are visible only as cgroups and shared directories, which are left out by
# name.
snapshot() {
  say "# mounts"
  cut -d' ' -f4- /proc/self/mountinfo | sort
  say "# links, addresses, routes"
  ip -o link | awk '{print $2}'
  ip -o addr | awk '{print $2, $3, $4}'
  ip route
  say "# iptables"
  iptables-save 2>&1 | sed 's/\[[0-9:]*\]//; /^#/d'
  say "# sysctls"
  sysctl -a 2>/dev/null | grep -Ev "$VOLATILE" | known_keys
  say "# cgroups"
  find /sys/fs/cgroup -maxdepth 2 -type d -not -path '*/tessera.*' -not -path '*/process_api/*' | sort
  find /sys/fs/cgroup -type d -path "*/tessera.$CLUSTER*"
  other_clusters || cat /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
  say "# directories"
  ls -d /run/containerd /run/netns /run/xtables.lock /run/cdi /var/lib/containerd /etc/cni /etc/cdi /etc/kubernetes \
    /var/run/kubernetes "$TESSERA_STATE" 2>/dev/null || true
  # shellcheck disable=SC2086
  other_clusters || ls -d $NODE_MOUNT_POINTS "$HOST_RECORD" 2>/dev/null || true
  say "# end"
}

other_clusters() { cgroup_clusters | grep -vxq "$CLUSTER"; }

# descendants PID: prints all processes below it, with the start time that makes a pid unique.
descendants() {
  local pid
  ps -eo pid=,ppid= | awk -v root="$1" '
    { parent[$1] = $2 }
    END { for (p in parent) { q = p; while (q in parent && q != root) q = parent[q]; if (q == root) print p } }' |
    while read -r pid; do say "$pid $(process_start "$pid")"; done
}

# survivors FILE: prints the processes of the list that still exist.
survivors() {
  local pid start
  [[ -r $1 ]] || return 1
  while read -r pid start; do
    [[ -n $start ]] || continue
    same_process "$pid" "$start" && say "$pid $(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c1-80)"
  done <"$1"
  return 0
}

# mentioned: prints all processes whose command line contains our state directory.
mentioned() {
  local file line
  for file in /proc/[0-9]*/cmdline; do
    line=$(tr '\0' ' ' 2>/dev/null <"$file") || continue
    [[ $line != *"$TESSERA_STATE"* ]] || say "$file $line"
  done
}

# expect_nothing WHEN PROCESSES
expect_nothing() {
  check "$1: every process is gone" prints_nothing survivors "$2"
  check "$1: no process mentions the state directory" prints_nothing mentioned
  check "$1: mounts, links, iptables, sysctls, cgroups and directories are as before" prints_nothing diff "$work/before" <(snapshot)
}

start() {
  TESSERA_OWNER="$$ $(process_start $$)" cluster up "$@" >/dev/null
  require_running
  descendants "$(<"$S/driver/launcher")" >"$work/processes"
}

use_cluster "leaves-nothing-$$"
TEST_CLUSTERS=$CLUSTER
trap 'rm -rf "$work"; clean_up' EXIT
snapshot >"$work/first"
mv "$work/first" "$work/before"

start --nodes 2
for node in node-a node-b; do
  kubectl run "on-$node" --image="$BUSYBOX_IMAGE" --overrides="{\"spec\":{\"nodeName\":\"$node\"}}" -- sleep 1000 >/dev/null
  wait_for 30 "a pod runs on $node" pod_is "on-$node" Running
done
"$CLUSTER_DIR/cluster" --name "$CLUSTER" exec --node node-b -- sleep 1000 &
disown
descendants "$(<"$S/driver/launcher")" >"$work/processes"
if (($(wc -l <"$work/processes") >= 25)); then pass "the cluster's processes were found"; else fail "the cluster's processes were found: only $(wc -l <"$work/processes")"; fi
check "the machine's sysctls do not change even while it runs" prints_nothing \
  diff <(grep -E '^(kernel|vm)\.' "$work/before") <(snapshot | grep -E '^(kernel|vm)\.')
cluster down >/dev/null
expect_nothing "after down" "$work/processes"

start --nodes 1
kill -KILL "$(driver_pid)"
gone() { prints_nothing survivors "$work/processes" >/dev/null; }
DRIVER='' # it is killed on purpose, so there is nothing to diagnose
deadline=$((SECONDS + 20))
until gone || ((SECONDS > deadline)); do sleep 0.05; done
check "kill -9 of the driver alone ends every process" prints_nothing survivors "$work/processes"
cluster down >/dev/null
expect_nothing "after kill -9 of the driver and down" "$work/processes"

# kill_up_half_way: kills `up` right after it has started the API server. Does not use the function
# "cluster", because then only the shell in between would be killed.
kill_up_half_way() {
  local up
  "$CLUSTER_DIR/cluster" --name "$CLUSTER" up >/dev/null 2>&1 &
  up=$!
  disown
  until [[ -e $S/parts/kube-apiserver/pid ]]; do sleep 0.02; done
  kill -KILL "$up"
  descendants "$(<"$S/driver/launcher")" >"$work/processes"
}

kill_up_half_way
cluster down >/dev/null
expect_nothing "after kill -9 of up half-way and down" "$work/processes"

kill_up_half_way
kill -KILL "$(<"$S/driver/launcher")"
cluster down >/dev/null
expect_nothing "after kill -9 of up half-way, then of the driver's parent, and down" "$work/processes"

# The state after Ctrl-C: the driver still runs and waits for commands. `make demo` continues from
# it.
kill_up_half_way
mv "$work/processes" "$work/half"
check "up after an unfinished up starts a complete cluster" start --nodes 1
check "no process of the unfinished cluster is left" prints_nothing survivors "$work/half"
cluster down >/dev/null
expect_nothing "after up, kill -9, up and down" "$work/processes"

# After a reboot the pids in the state directory belong to other processes, for example to this
# test.
mkdir -p "$S/driver"
echo "$$ 1" >"$S/driver/pid"
: >"$work/processes"
cluster down >/dev/null
expect_nothing "with a stale state directory" "$work/processes"
expect "down of a cluster that does not exist succeeds" "there is no cluster \"$CLUSTER\"" "$(cluster down)"
finish
