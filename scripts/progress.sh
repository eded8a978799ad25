# shellcheck shell=bash
# Shows that a long step is still running, and how far it is. For scripts to source.
#
#   describe_copy() { printf 'copy: %d/40 files' "$(ls out | wc -l)"; }
#   with_progress build/copy.log describe_copy cp -r in out
#
# Progress goes to standard output: on a terminal as one line that is overwritten every second,
# elsewhere (a file, a CI log) as a new line every TESSERA_PROGRESS_SECONDS (30). A step that ends
# earlier than that prints nothing.

PROGRESS_SECONDS=${TESSERA_PROGRESS_SECONDS:-30}

# about SECONDS: a duration as people say it, for estimates: "40 s", "4 min".
about() {
  if (($1 < 90)); then printf '%d s' "$1"; else printf '%d min' $((($1 + 30) / 60)); fi
}

# elapsed SECONDS: "40 s so far", "4 min 5 s so far".
elapsed() {
  if (($1 < 120)); then printf '%d s so far' "$1"; else printf '%d min %d s so far' $(($1 / 60)) $(($1 % 60)); fi
}

# time_left FINISHED TOTAL SECONDS: ", about 4 min left", from the pace so far. Prints nothing while
# that would be a guess.
time_left() {
  (($1 >= 10 && $3 >= 5)) || return 0
  printf ', about %s left' "$(about $(($3 * ($2 - $1) / $1)))"
}

# with_progress LOG DESCRIBE COMMAND...: runs the command and returns its exit code. Its output is
# appended to LOG; "-" leaves it where it is. Meanwhile shows the output of `DESCRIBE SECONDS`,
# where SECONDS is the time since the start. DESCRIBE sees the variables of the caller, as they were
# at the start; names with "progress_" are taken.
with_progress() {
  local progress_log=$1 progress_describe=$2 progress_status
  shift 2
  start_progress "$progress_describe" "$([[ $progress_log != - ]] || echo lines)"
  # Not "|| status=$?": that would switch errexit off inside a command that is a function. Where
  # errexit is on, a failure ends the script here; the reporter notices that and ends as well.
  if [[ $progress_log == - ]]; then "$@"; else "$@" >>"$progress_log" 2>&1; fi
  progress_status=$?
  stop_progress
  return "$progress_status"
}

# start_progress DESCRIBE [lines], stop_progress: the same for a step that is not a single command.
# "lines": print whole lines even on a terminal, because the step itself prints there.
start_progress() {
  local progress_parent=$BASHPID
  progress_reporter "$1" "${2:-}" "$progress_parent" &
  PROGRESS_PID=$!
}

stop_progress() {
  kill "$PROGRESS_PID" 2>/dev/null || true
  wait "$PROGRESS_PID" 2>/dev/null || true
  [[ ! -t 1 ]] || printf '\r\033[K'
}

# progress_reporter DESCRIBE LINES PARENT: runs in the background until it is killed or PARENT ends.
progress_reporter() {
  local progress_begin=$SECONDS progress_next=$((SECONDS + PROGRESS_SECONDS)) progress_text progress_never
  set +e # a description that fails must not end the reports
  trap - EXIT INT TERM HUP
  # A pipe without data: `read` on it sleeps without a process that could be left behind.
  exec {progress_never}<> <(:)
  while kill -0 "$3" 2>/dev/null; do
    if [[ -t 1 && $2 != lines ]]; then
      progress_text=$("$1" $((SECONDS - progress_begin)))
      printf '\r\033[K%.*s' "$((${COLUMNS:-100} - 1))" "$progress_text"
    elif ((SECONDS >= progress_next)); then
      progress_text=$("$1" $((SECONDS - progress_begin)))
      printf '%s\n' "$progress_text"
      progress_next=$((SECONDS + PROGRESS_SECONDS))
    fi
    read -rt 1 -u "$progress_never"
  done
}

# progress_tick TEXT: for loops that poll. Call it in every round, and with "" after the loop.
# Writes to standard error.
progress_tick() {
  if [[ -t 2 ]]; then
    printf '\r\033[K%s' "$1" >&2
  elif [[ -z $1 ]]; then
    PROGRESS_NEXT=
  elif [[ -z ${PROGRESS_NEXT:-} ]]; then
    PROGRESS_NEXT=$((SECONDS + PROGRESS_SECONDS))
  elif ((SECONDS >= PROGRESS_NEXT)); then
    printf '%s\n' "$1" >&2
    PROGRESS_NEXT=$((SECONDS + PROGRESS_SECONDS))
  fi
}
