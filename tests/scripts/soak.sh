#!/usr/bin/env bash
# The fault campaign (scripts/soak) with fakes instead of its steps: it goes on until the numbers
# are reached, continues after kill -9 without repeating a finished step, merges the results, and
# fails on a violation, a failed check or a step without a result.
# shellcheck source=tests/scripts/lib.sh
. "$(dirname "$0")/lib.sh"
mkdir -p "$work"/{scripts,bin} "$work"/tests/{extender,agent,chart}/cluster "$work/tests/kube"
cp scripts/{soak,progress.sh} "$work/scripts/"

# Every step notes that it ran, does what the file "FAKE" says, and leaves a result.
cat >"$work/step" <<'STEP'
#!/bin/bash
name=$(basename "$0" .sh)
echo "$name $SEED $*" >>"$FAKES/ran"
violations='[]' failed=0
case $(cat "$FAKES/$name" 2>/dev/null) in
  hang) echo "fault slow" >"$TESSERA_RESULT.tally" && sleep 60 ;;
  crash) exit 3 ;;
  violate) violations='["a GPU is used twice"]' failed=1 ;;
esac
cat >"$TESSERA_RESULT" <<JSON
{"campaign": "$name", "seed": $SEED, "pods": 100, "faults": {"kill": 2, "$name": 1}, "checks": 10, "failed": $failed,
 "violations": $violations, "pods_lost": 1, "lost": {"kill": 1}, "slowest_recovery_ms": 4${#name}00, "recovery_ms": {"kill": 4${#name}00}, "duration_s": 60}
JSON
exit $failed
STEP
chmod +x "$work/step"
for name in extender/cluster/{faults,election,sidecars,hostile} agent/cluster/{crowd,restarts,hostile,serves,update,hotplug} chart/cluster/webhook; do cp "$work/step" "$work/tests/$name.sh"; done
printf '#!/bin/sh\necho "replay 0 $*" >>"$FAKES/ran"\n' >"$work/tests/kube/real-api-server.sh"
chmod +x "$work/tests/kube/real-api-server.sh"

# soak VARIABLE=VALUE... [-- ARGUMENT...]: runs the campaign in the copied tree. Its output is
# $work/out. Returns its exit code.
export FAKES=$work SOAK_BIN=$work/bin SOAK_SEED=100 SOAK_COMMIT=abc TESSERA_PROGRESS_SECONDS=1
soak() {
  local -a variables=()
  while (($# > 0)) && [[ $1 != -- ]]; do variables+=("$1") && shift; done
  shift || true
  (cd "$work" && exec env "${variables[@]}" scripts/soak "$@") >"$work/out" 2>&1 </dev/null
}
code_of() { local code=0; "$@" || code=$?; echo "$code"; }
ran() { awk '{ print $1, $2 }' "$work/ran" | paste -sd,; }
row() { grep "^| $1 " "$work/build/soak/summary.md"; }
again() { rm -rf "$work"/{build,ran,faults,crowd,election}; }

expect "an unknown campaign is refused" 2 "$(code_of soak CAMPAIGN=extenders)"
expect "a campaign succeeds when its numbers are reached" 0 "$(code_of soak CAMPAIGN=extender SOAK_FAULTS=21 SOAK_PODS=300)"
first_round="faults 101,election 101,sidecars 101,faults 101,election 101,sidecars 101,replay 0"
expect "every round has another seed, and a step that runs once has one round" "$first_round,faults 102" "$(ran)"
expect "the summary adds up all steps" "| total | 8 | 700 | 21 | 71 | 0 | 0 | 7 | 4.8 s |" "$(row total)"
expect "the summary has each step" "| faults | 2 | 200 | 6 | 20 | 0 | 0 | 2 | 4.6 s |" "$(row faults | head -n 1)"
expect "the summary has each kind of fault" "| kill | 14 | 7 | 4.8 s |" "$(row kill)"
expect "the summary names the programs" yes "$(grep -q 'commit abc' "$work/build/soak/summary.md" && echo yes)"
soak CAMPAIGN=extender SOAK_FAULTS=21 SOAK_PODS=300
expect "a campaign that has reached its numbers runs nothing" 8 "$(wc -l <"$work/ran")"
soak CAMPAIGN=extender SOAK_FAULTS=21 SOAK_PODS=800
expect "more pods continue it" "election 102" "$(tail -n 1 "$work/ran" | cut -d' ' -f1,2)"
again

echo hang >"$work/election"
(cd "$work" && exec env CAMPAIGN=extender SOAK_FAULTS=9 SOAK_PODS=300 scripts/soak) >"$work/out" 2>&1 </dev/null &
campaign=$!
for ((i = 0; i < 100; i++)); do ! grep -q 'election-1.* so far; 4/9 faults, 100/300 pods, 0 violations' "$work/out" || break; sleep 0.1; done
expect "a line of progress has the numbers so far" yes "$( ((i < 100)) && echo yes || cat "$work/out")"
expect "only one campaign runs at a time" 1 "$(cd "$work" && code_of env CAMPAIGN=extender scripts/soak 2>/dev/null)"
step=$(pgrep -P "$(pgrep -P "$campaign" -f 'soak campaign')" -f election.sh)
kill -KILL "$campaign"
wait "$campaign" 2>/dev/null || true
for ((i = 0; i < 100; i++)); do kill -0 "$step" 2>/dev/null || break; sleep 0.1; done
expect "when the campaign is killed, its step ends" yes "$( ((i < 100)) && echo yes)"
rm "$work/election"
expect "started again, it continues" 0 "$(code_of soak CAMPAIGN=extender SOAK_FAULTS=9 SOAK_PODS=300)"
expect "it repeats only the step that was not finished" "${first_round/election 101/election 101,election 101}" "$(ran)"
again

echo violate >"$work/crowd"
expect "a violation is a failure" 1 "$(code_of soak CAMPAIGN=agent SOAK_FAULTS=12 SOAK_PODS=300)"
expect "the campaign goes on after it" "crowd 101,restarts 101,serves 101,update 101,hotplug 101,webhook 101" "$(ran)"
expect "the summary names it" "- Violation: a GPU is used twice" "$(grep Violation "$work/build/soak/summary.md")"
rm "$work/crowd"
expect "it stays a failure" 1 "$(code_of soak CAMPAIGN=agent -- summary)"
again

echo crash >"$work/faults"
expect "a step without a result is a failure" 1 "$(code_of soak CAMPAIGN=extender)"
rm "$work/faults"
soak CAMPAIGN=extender SOAK_FAULTS=1 SOAK_PODS=1
expect "it is repeated" "faults 101,faults 101" "$(ran | cut -d, -f1,2)"
again

soak SOAK_FAULTS=1 SOAK_PODS=1
expect "all means every step" "crowd election election faults faults hostile hostile hotplug replay restarts serves sidecars sidecars update webhook" \
  "$(cut -d' ' -f1 "$work/ran" | sort | paste -sd' ')"
expect "the attacks are in full, and run alone before all others" "hostile 101 --full" "$(head -n 1 "$work/ran")"
again

echo hang >"$work/crowd"
echo hang >"$work/faults"
(cd "$work" && exec env SOAK_FAULTS=9 SOAK_PODS=300 scripts/soak) >"$work/out" 2>&1 </dev/null &
campaign=$!
for ((i = 0; i < 100; i++)); do ! grep -q 'crowd-1.* so far; 8/9 faults' "$work/out" || break; sleep 0.1; done
expect "extender and agent run side by side, and the numbers so far include both" yes "$( ((i < 100)) && echo yes || cat "$work/out")"
kill "$campaign"
wait "$campaign" 2>/dev/null || true
again

echo crash >"$work/faults"
echo hang >"$work/crowd"
expect "if one campaign fails, the other one ends, too" 1 "$(code_of soak SOAK_FAULTS=9)"
again

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
