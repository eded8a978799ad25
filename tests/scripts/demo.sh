#!/usr/bin/env bash
# scripts/demo is interrupted (Ctrl-C) while it compiles Kubernetes. All programs are fakes.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
passed=0 failed=0
expect() { # what, wanted, got
  if [ "$2" = "$3" ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && printf 'FAILED: %s\n  wanted: %s\n  got:    %s\n' "$@"; fi
}
# compilers: how many of the fake compilers run.
compilers() {
  local pid count=0
  while read -r pid; do
    if kill -0 "$pid" 2>/dev/null; then count=$((count + 1)); fi
  done < <(cat "$work/compilers" 2>/dev/null)
  echo "$count"
}
stop_compilers() {
  local pid
  while read -r pid; do kill "$pid" 2>/dev/null || true; done < <(cat "$work/compilers" 2>/dev/null)
  rm -f "$work/compilers"
}
trap 'stop_compilers; rm -rf "$work"' EXIT
# within SECONDS COMMAND...
within() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.05
  done
}
compilers_are() { [ "$(compilers)" = "$1" ]; }

mkdir -p "$work"/{scripts,bin,programs,tests/cluster}
cp scripts/demo scripts/setup scripts/progress.sh "$work/scripts/"
: >"$work/scripts/apt-packages.txt"
: >"$work/tests/cluster/apt-packages.txt"
# shellcheck disable=SC2016
{
  printf '#!/bin/sh\necho 0\n' >"$work/bin/id"
  printf '#!/bin/sh\necho go version go1.26.0 linux/amd64\n' >"$work/bin/go"
  printf '#!/bin/sh\n' | tee "$work/bin/dpkg-query" "$work/scripts/third-party" "$work/scripts/build" "$work/programs/tessera" >/dev/null
  # Like the real one: a shell with a program that has children.
  printf '#!/bin/bash\necho compiling\nsh -c "sleep 300 & echo \\$! >>$WORK/compilers; sleep 300 & echo \\$! >>$WORK/compilers; wait"\n' \
    >"$work/tests/cluster/build-tools"
}
chmod +x "$work"/bin/* "$work"/scripts/* "$work"/programs/* "$work/tests/cluster/build-tools"

for signal in INT TERM HUP; do
  # A shell without job control starts background programs with SIGINT ignored, and shells cannot
  # trap an ignored signal. The demo must be able to, so the default is restored.
  WORK=$work PATH=$work/bin:$PATH TESSERA_CACHE=$work/cache TESSERA_BIN=$work/programs \
    setsid env --default-signal "$work/scripts/demo" up >"$work/out" 2>&1 &
  demo=$!
  within 20 compilers_are 2 || true
  expect "Kubernetes is being compiled" 2 "$(compilers)"
  code=0
  if [ "$signal" = INT ]; then kill -INT -- "-$demo"; else kill -"$signal" "$demo"; fi
  wait "$demo" || code=$?
  expect "$signal ends the demo" 130 "$code"
  expect "which explains how to continue" 1 "$(grep -c '"make demo" continues where it was' "$work/out")"
  within 10 compilers_are 0 || true
  expect "$signal ends every compiler" 0 "$(compilers)"
  stop_compilers
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
