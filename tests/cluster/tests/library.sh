#!/usr/bin/env bash
# The parts of the library that need no cluster. Needs neither root nor the built programs.
set -euo pipefail
# shellcheck source=../lib/api.sh
source "$(dirname "$0")/../lib/api.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# config TEXT: prints scheduler_config of a file with this text, on one line.
config() {
  printf '%b' "$1" >"$work/config"
  scheduler_config "$work/config" /k | tr '\n' '|'
}
election='leaderElection:|  leaderElect: false|'
expect "a scheduler configuration without a connection gets one" \
  "kind: X|clientConnection:|  kubeconfig: /k|$election" "$(config 'kind: X\n')"
expect "a connection without a kubeconfig gets one, with its own indentation" \
  "clientConnection:|    qps: 9|    kubeconfig: /k|kind: X|$election" "$(config 'clientConnection:\n    qps: 9\nkind: X\n')"
expect "an empty kubeconfig is replaced" \
  "clientConnection:|  qps: 9|  kubeconfig: /k|$election" "$(config 'clientConnection:\n  kubeconfig:\n  qps: 9\n')"
expect "a kubeconfig of the file is kept" \
  "clientConnection:|  kubeconfig: /mine|$election" "$(config 'clientConnection:\n  kubeconfig: /mine\n')"
expect "kubeadm's is replaced" \
  "clientConnection:|  kubeconfig: /k|kind: X|$election" "$(config 'clientConnection:\n  kubeconfig: /etc/kubernetes/scheduler.conf\nkind: X\n')"
expect "kubeadm's is replaced in an inline connection" \
  "clientConnection: {qps: 9, kubeconfig: /k}|$election" "$(config 'clientConnection: {qps: 9, kubeconfig: /etc/kubernetes/scheduler.conf}\n')"
expect "an inline connection gets one" \
  "clientConnection: {kubeconfig: /k, qps: 9}|$election" "$(config 'clientConnection: {qps: 9}\n')"
expect "leader election of the file is kept" \
  "leaderElection:|  leaderElect: true|clientConnection:|  kubeconfig: /k|" "$(config 'leaderElection:\n  leaderElect: true\n')"
expect "the kubeconfig of another section does not count" \
  "extenders:|- kubeconfig: /other|clientConnection:|  kubeconfig: /k|$election" "$(config 'extenders:\n- kubeconfig: /other\n')"
expect "a JSON configuration gets a connection" '{"kind":"X","clientConnection":{"kubeconfig":"/k"},"leaderElection":{"leaderElect":false}}' \
  "$(config '{"kind": "X"}' | tr '|' '\n' | jq -c .)"

expect "kubeadm's is replaced in JSON" /k \
  "$(config '{"clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"}}' | tr '|' '\n' | jq -r .clientConnection.kubeconfig)"
expect "a kubeconfig of a JSON file is kept" /mine "$(config '{"clientConnection": {"kubeconfig": "/mine"}}' | tr '|' '\n' | jq -r .clientConnection.kubeconfig)"

expect "simulated nodes are numbered from 1" "sim-0001 sim-0012" \
  "$(sim_node_manifests 12 | jq -r '[.items[0, 11].metadata.name] | join(" ")')"
expect "numbers above 9999 have five digits" "sim-10001" "$(sim_node_manifests 10001 | jq -r '.items[-1].metadata.name')"

# shellcheck disable=SC2034 # read by the library
NODES=2 SIM_NODES=0 CLUSTER=x
expect "kubelet means kubelet-node-a" "kubelet-node-a" "$(part_named kubelet)"
expect_match "an unknown part is refused with the list" "no part \"kublet\"; it has: etcd .*kubelet-node-b" \
  "$(part_named kublet 2>&1)"
for name in Big a_b -a '' "$(printf '%033d' 0)"; do
  if valid_cluster_name "$name"; then fail "cluster name \"$name\" is refused"; else pass "cluster name \"$name\" is refused"; fi
done

expect "a process is identified by its start time" yes "$(same_process $$ "$(process_start $$)" && echo yes)"
if same_process $$ 1; then fail "the same pid with another start time is another process"; else pass "the same pid with another start time is another process"; fi

mkdir "$work/root"
echo hello >"$work/root/file"
make_image a/b:1 "$work/root" "$work/one.tar" /file x
touch -d '1 hour ago' "$work/root/file"
make_image a/b:1 "$work/root" "$work/two.tar" /file x
check "the same folder gives the same image" cmp "$work/one.tar" "$work/two.tar"
expect "the image has the given entrypoint" '["/file","x"]' "$(tar -xOf "$work/one.tar" config.json | jq -c .config.Entrypoint)"

make_image a/b:1 "$work/root" "$work/shell.tar" /bin/sh -c 'exit 3' --
expect "arguments that look like jq options are kept" '["/bin/sh","-c","exit 3","--"]' "$(tar -xOf "$work/shell.tar" config.json | jq -c .config.Entrypoint)"

other=$(GO_TOOLCHAIN=go1.0.0 tool_home etcd)
if [[ $other != "$(tool_home etcd)" ]]; then pass "another compiler is another build"; else fail "another compiler is another build"; fi
expect "Kubernetes versions are chosen" "v1.33.13 v1.36.4" "$(K8S=1.33 tool_version kubelet) $(K8S=1.36 tool_version kubelet)"

# require_with VARIABLE=VALUE...: prints the exit code and output of a test that needs a cluster.
require_with() {
  local code=0 out
  # shellcheck disable=SC2016
  out=$(env "$@" bash -c 'source "$0/lib/api.sh"; TEST_NAME=t; cluster_require_or_skip; echo goes on' "$CLUSTER_DIR" 2>&1) || code=$?
  say "$code $out"
}
expect_match "without programs a test is skipped, in one line" "^77 t: skipped: [^"$'\n'"]*$" \
  "$(require_with TESSERA_CACHE="$work/empty" TESSERA_REQUIRE_CLUSTER=)"
expect_match "with TESSERA_REQUIRE_CLUSTER=1 that is a failure" "^1 t: FAILED, and may not be skipped" \
  "$(require_with TESSERA_CACHE="$work/empty" TESSERA_REQUIRE_CLUSTER=1)"

# checks_of COMMAND...: prints the output of a test that runs the command and then goes on, without
# a cluster.
checks_of() {
  # shellcheck disable=SC2016
  bash -c 'set -euo pipefail; source "$0/lib/api.sh"; TEST_NAME=t; report_dead() { :; }; diagnose() { :; }
    "$@"; say "goes on"; finish' "$CLUSTER_DIR" "$@" 2>&1 | tr '\n' ' ' || true
}
expect_match "wait_for records a failure as a check, and the script goes on" \
  "^FAIL  it never holds .*goes on t: 0 passed, 1 failed $" "$(checks_of wait_for 0 "it never holds" false)"
expect_match "wait_for records a success" "^ok    it holds .*goes on t: 1 passed, 0 failed $" \
  "$(checks_of wait_for 0 "it holds" true)"
expect_match "wait_or_finish ends the test after a failure" "^FAIL  it never holds .* t: 0 passed, 1 failed $" \
  "$(checks_of wait_or_finish 0 "it never holds" false | grep -v "goes on")"

# Only an old Go. If the machine has a newer one in /usr/local/go, that one is found.
mkdir "$work/bin"
printf '#!/bin/sh\necho go1.19.8\n' >"$work/bin/go"
chmod +x "$work/bin/go"
if [[ ! -x /usr/local/go/bin/go ]]; then
  expect_match "an old Go is reported" "Go is too old: $work/bin/go is go1.19.8" \
    "$(TESSERA_CACHE=$work PATH=$work/bin:/usr/bin:/bin find_go 2>&1 || true)"
else
  expect "a new Go is found although an old one is first in the PATH" /usr/local/go/bin/go "$(TESSERA_CACHE=$work PATH=$work/bin:/usr/bin:/bin find_go)"
fi
finish
