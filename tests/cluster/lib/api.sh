# shellcheck shell=bash
# For tests that run on a cluster: start, wait, check, and find the cause of a failure. A test
# script sources it:
#
#   source "$(dirname "$0")/../lib/api.sh"
#   cluster_require_or_skip
#   cluster_start --nodes 2
#   kubectl apply -f pod.yaml
#   wait_for 30 "the pod to run" pod_is my-pod Running
#   expect "its log" "hello" "$(kubectl logs my-pod)"
#   finish
#
# A failed check does not end the script; `finish` prints "N passed, N failed" and sets the exit
# code. After the first failure the library looks for a dead part and prints the end of its log. The
# cluster is removed when the script ends for any reason.

api_directory=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=load.sh
source "$api_directory/load.sh"
# shellcheck source=down.sh
source "$api_directory/down.sh"
# shellcheck source=tally.sh
source "$api_directory/tally.sh"

PASSED=0
FAILED=0
BLAMED=
TEST_NAME=$(basename "$0" .sh)

# cluster_require_or_skip [PROGRAM...]: if no cluster can run on this machine, prints the reason on
# one line and exits with 77 ("skipped"). With TESSERA_REQUIRE_CLUSTER=1, as in CI, that is a
# failure.
cluster_require_or_skip() {
  local problem missing
  problem=$(host_problem)
  if [[ -z $problem ]]; then
    # shellcheck disable=SC2046
    missing=$(missing_tools $(NODES=1 SIM_NODES=0 needed_programs) "$@" | tr '\n' ' ')
    if [[ -n $missing ]]; then
      if ! problem=$(find_go 2>&1); then :; else
        problem="the cluster's programs are not built: $missing(tests/cluster/build-tools builds them, about 14 minutes once)"
      fi
    fi
  fi
  if [[ -n $problem ]]; then
    if [[ ${TESSERA_REQUIRE_CLUSTER:-} == 1 ]]; then
      say "$TEST_NAME: FAILED, and may not be skipped (TESSERA_REQUIRE_CLUSTER=1): $problem"
      exit 1
    fi
    say "$TEST_NAME: skipped: $problem"
    exit 77
  fi
  remove_orphans
}

# remove_orphans: removes clusters of tests that were killed before they could clean up.
remove_orphans() {
  local name pid start
  for name in $(cluster_names); do
    read -r pid start 2>/dev/null <"$STATE_ROOT/$name/owner" || continue
    same_process "$pid" "$start" || "$CLUSTER_DIR/cluster" down --name "$name"
  done
}

cluster() { "$CLUSTER_DIR/cluster" --name "$CLUSTER" "$@"; }
# kubectl ARGS...: the same as "cluster kubectl", without a further shell.
kubectl() { (KUBECONFIG=$S/kube/admin in_cluster_network "$S/bin/kubectl" "$@"); }

# api_get PATH [CURL-ARGUMENT...]: prints the API server's response to a GET. Needs a tenth of the
# time of kubectl: for checks that run often.
api_get() {
  (in_cluster_network curl -fsS --max-time 20 --cacert "$S/pki/ca.crt" --oauth2-bearer "$(<"$S/pki/admin-token.token")" \
    "${@:2}" "https://$API_IP:$API_PORT$1")
}
# pods_in_phase PHASE [LABEL-SELECTOR]: prints how many pods of the default namespace are in the
# phase and are not being deleted.
pods_in_phase() {
  api_get "/api/v1/namespaces/default/pods?includeObject=None&fieldSelector=status.phase%3D$1${2:+&labelSelector=${2/=/%3D}}" \
    -H 'Accept: application/json;as=Table;v=v1;g=meta.k8s.io' | awk -v RS='"cells":' 'NR > 1 && !/"Terminating"/ { n++ } END { print n + 0 }'
}

# cluster_start [--as SUFFIX] UP-ARGUMENTS...: starts a cluster named after the test, so that tests
# can run in parallel.
cluster_start() {
  local suffix=
  if [[ ${1:-} == --as ]]; then suffix=-$2 && shift 2; fi
  use_cluster "$TEST_NAME-$$$suffix"
  TEST_CLUSTERS="${TEST_CLUSTERS:-} $CLUSTER"
  trap clean_up EXIT
  if ! TESSERA_OWNER="$$ $(process_start $$)" cluster up "$@"; then
    say "FAIL  cluster up $*"
    exit 1
  fi
  require_running
}

# switch_cluster SUFFIX: for tests with several clusters.
switch_cluster() {
  use_cluster "$TEST_NAME-$$-$1"
  require_running
}

clean_up() {
  local code=$? name
  trap - EXIT
  for name in ${TEST_CLUSTERS:-}; do
    "$CLUSTER_DIR/cluster" down --name "$name" >/dev/null || code=1
  done
  exit "$code"
}

pass() {
  PASSED=$((PASSED + 1))
  say "ok    $1"
}

# fail WHAT [DETAIL]
fail() {
  FAILED=$((FAILED + 1))
  say "FAIL  $1"
  [[ -z ${2:-} ]] || printf '%s\n' "$2" | sed 's/^/      /'
  if [[ -z $BLAMED && -n ${DRIVER:-} && -d ${S:-} ]]; then
    BLAMED=1
    diagnose
  fi
}

# check WHAT COMMAND...: the command's output is shown only when it fails.
check() {
  local what=$1 out
  shift
  if out=$("$@" 2>&1); then pass "$what"; else fail "$what" "$out"; fi
}

# expect WHAT WANTED GOT: not for "finds nothing", because a command that fails prints nothing
# either; that is: check WHAT prints_nothing COMMAND...
expect() {
  if [[ $2 == "$3" ]]; then pass "$1"; else fail "$1" "wanted: $2"$'\n'"got:    $3"; fi
}

# prints_nothing COMMAND...: whether the command succeeds and prints nothing. For commands that
# print problems: one that cannot read its input fails, and has not found "no problems".
prints_nothing() {
  local out code=0
  out=$("$@") || code=$?
  [[ -z $out ]] || say "$out"
  ((code == 0)) || say "\"$*\" failed with exit code $code"
  [[ $code == 0 && -z $out ]]
}

# expect_match WHAT REGEX GOT
expect_match() {
  if [[ $3 =~ $2 ]]; then pass "$1"; else fail "$1" "wanted a match of: $2"$'\n'"got: $3"; fi
}

# wait_for SECONDS WHAT COMMAND...: a check that passes if the command succeeds within SECONDS. Like
# every check it records a failure and lets the script go on. If a part of the cluster dies, it
# fails at once and names the part.
wait_for() { try_wait_for "$@" || true; }

# wait_or_finish SECONDS WHAT COMMAND...: the same, but a failure ends the test.
wait_or_finish() { try_wait_for "$@" || finish; }

# try_wait_for SECONDS WHAT COMMAND...: the same, but returns 1 after a failure.
try_wait_for() {
  local seconds=$1 what=$2 begin out
  shift 2
  begin=$(now_ms)
  # The output is shown only after a failure, so lines of progress would be in the way.
  if out=$(PROGRESS_SECONDS=100000 wait_until "$seconds" "$what" "$@" 2>&1); then
    pass "$what ($(seconds_since "$begin") s)"
  else
    BLAMED=1 # wait_until has named the part
    fail "$what" "$(awk '!seen[$0]++' <<<"$out")" # every attempt may have printed the same
    return 1
  fi
}

# attack NAME COMMAND...: runs a command of hostile.py in the network of the cluster, in the
# background. Its output is $S/tmp/NAME.out. Sets ATTACK_PID.
# measure NAME COMMAND...: the same for a client that measures; it does not wait for a processor.
attack() { in_background_as "nice -n 5" "$@"; }
measure() { in_background_as "$(undisturbed)" "$@"; }
# undisturbed: prints a prefix for commands that must not wait for a processor: real-time priority,
# where the machine permits it. In a cluster, the attackers and the API server run on other machines.
undisturbed() { if chrt -f 10 true 2>/dev/null; then say "chrt -f 10"; else say "nice -n -5"; fi; }
# never_waits PID: the same for a process that runs already.
never_waits() { chrt -a -f -p 10 "$1" 2>/dev/null || renice -n -5 -p "$1" >/dev/null; }
in_background_as() {
  local -a priority
  read -ra priority <<<"$1"
  shift
  (API_URL=https://$API_IP:$API_PORT API_CA=$S/pki/ca.crt API_TOKEN=$(<"$S/pki/admin-token.token") in_cluster_network \
    setpriv --pdeathsig KILL -- "${priority[@]}" python3 "$CLUSTER_DIR/lib/hostile.py" "${@:2}" >"$S/tmp/$1.out" 2>"$S/tmp/$1.err") &
  ATTACK_PID=$!
}

# is_gone KIND NAME [NAMESPACE]: whether the API server reports that there is no such object.
is_gone() { prints_nothing kubectl -n "${3:-default}" get "$1" "$2" --ignore-not-found -o name; }

# pod_is POD PHASE
pod_is() { [[ $(kubectl get pod "$1" -o 'jsonpath={.status.phase}' 2>/dev/null) == "$2" ]]; }

finish() {
  say "$TEST_NAME: $PASSED passed, $FAILED failed"
  write_result || fail "the result is written to $TESSERA_RESULT"
  ((FAILED == 0)) || exit 1
  exit 0
}
