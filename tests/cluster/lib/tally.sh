# shellcheck shell=bash
# shellcheck disable=SC2154 # the library is loaded as a whole
# Counts what a test did to a cluster, and what became of it, for make soak. Sourced.
#
# TESSERA_RESULT names a file. When the test finishes, it has one JSON object there:
#
#   {"campaign": "faults", "seed": 7, "pods": 800, "faults": {"kill-extender": 1}, "checks": 95,
#    "failed": 0, "violations": [], "pods_lost": 0, "lost": {}, "slowest_recovery_ms": 9120,
#    "recovery_ms": {"kill-extender": 9120}, "duration_s": 210}
#
# Until then, each count is a line of TESSERA_RESULT.tally, because subshells count as well.
# Without TESSERA_RESULT, nothing is counted.

tally() { [[ -z ${TESSERA_RESULT:-} ]] || printf '%s\n' "$*" >>"$TESSERA_RESULT.tally"; }

# count_pods COUNT: this many pods were created.
count_pods() { tally pods "$1"; }
# count_fault KIND: a fault was caused.
count_fault() { tally fault "$1"; }
# count_recovery KIND MS: everything worked again this long after the beginning of the fault.
count_recovery() { tally recovery "$1" "$2"; }
# count_lost KIND COUNT: kubelet rejected this many pods because of the fault.
count_lost() { (($2 == 0)) || tally lost "$1" "$2"; }
# violation TEXT: a promise of docs/reliability.md was broken. The caller has recorded the failed
# check.
violation() { tally violation "$1"; }

# shuffled WORD...: prints the words in an order that depends only on SEED.
shuffled() {
  local -a words=("$@")
  local i j swap
  RANDOM=${SEED:-1}
  for ((i = ${#words[@]} - 1; i > 0; i--)); do
    j=$((RANDOM % (i + 1))) swap=${words[i]}
    words[i]=${words[j]} words[j]=$swap
  done
  echo "${words[@]}"
}
# shuffled_rounds COUNT WORD...: prints all words COUNT times, each time in another order.
shuffled_rounds() {
  local round
  for ((round = 1; round <= $1; round++)); do SEED=$((${SEED:-1} * 1000 + round)) shuffled "${@:2}"; done | xargs
}

# write_result: called by `finish`.
write_result() {
  [[ -n ${TESSERA_RESULT:-} ]] || return 0
  tally end
  jq -Rn --arg campaign "$TEST_NAME" --argjson seed "${SEED:-0}" --argjson passed "$PASSED" --argjson failed "$FAILED" --argjson seconds "$SECONDS" '
    [inputs | split(" ")] as $lines |
    def rows($what): $lines[] | select(.[0] == $what) | .[1:];
    {campaign: $campaign, seed: $seed,
     pods: ([rows("pods")[0] | tonumber] | add // 0),
     faults: (reduce rows("fault") as [$kind] ({}; .[$kind] += 1)),
     checks: ($passed + $failed), failed: $failed,
     violations: [rows("violation") | join(" ")],
     pods_lost: ([rows("lost")[1] | tonumber] | add // 0),
     lost: (reduce rows("lost") as [$kind, $count] ({}; .[$kind] += ($count | tonumber))),
     slowest_recovery_ms: ([rows("recovery")[1] | tonumber] | max // 0),
     recovery_ms: (reduce rows("recovery") as [$kind, $ms] ({}; .[$kind] = ([.[$kind] // 0, ($ms | tonumber)] | max))),
     duration_s: $seconds}' "$TESSERA_RESULT.tally" >"$TESSERA_RESULT.new" && mv "$TESSERA_RESULT.new" "$TESSERA_RESULT"
}
