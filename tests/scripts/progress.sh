#!/usr/bin/env bash
# Long steps of the scripts print a line of progress when their output goes to a file. Every step is
# replaced by a slow fake, and lines are due every second instead of every 30.
# shellcheck source=tests/scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# expect_lines WHAT REGEX FILE: at least two lines match: one could be printed before or after the
# step.
expect_lines() {
  local count
  count=$(grep -cE "$2" "$3" || true)
  expect "$1" "2 or more" "$([ "$count" -ge 2 ] && echo "2 or more" || echo "$count in: $(cat "$3")")"
}
export TESSERA_PROGRESS_SECONDS=1

mkdir -p "$work"/{scripts,bin,tests,build}
cp -r tests/cluster "$work/tests/"
cp scripts/{progress.sh,setup,build,test,lint,third-party} "$work/scripts/"

# fake NAME TEXT: a program on the PATH of the scripts under test.
fake() {
  printf '#!/bin/bash\n%s\n' "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
# run OUT COMMAND...: runs it in the copied tree and returns its exit code.
run() {
  local out=$1 code=0
  shift
  (cd "$work" && PATH=$work/bin:$PATH TESSERA_CACHE=$work/cache "$@") >"$out" 2>&1 </dev/null || code=$?
  return "$code"
}

# The library itself.
cat >"$work/step" <<'EOF'
set -euo pipefail
source scripts/progress.sh
describe() { echo "step, $(elapsed "$1")"; }
step() { sleep 3.5; echo output; return "$1"; }
code=0
with_progress log describe step "$1" || code=$?
echo "ended with $code"
EOF
run "$work/out" bash step 0
expect_lines "a slow step prints lines" '^step, [0-9]+ s so far$' "$work/out"
expect "the output of the step is in its log" output "$(cat "$work/log")"
expect "a step that succeeds returns 0" "ended with 0" "$(tail -n 1 "$work/out")"
run "$work/out" bash step 3
expect "a step that fails returns its exit code" "ended with 3" "$(tail -n 1 "$work/out")"
TESSERA_PROGRESS_SECONDS=30 run "$work/out" bash step 0
expect "a short step prints nothing" "ended with 0" "$(cat "$work/out")"

# A killed script must not leave a reporter behind that keeps its output open.
cat >"$work/killed" <<'EOF'
source scripts/progress.sh
describe() { echo step; }
start_progress describe
kill -KILL $$
EOF

expect "the reporter of a killed script ends" yes "$(timeout 10 bash -c "cd '$work' && bash killed | cat" >/dev/null 2>&1 && echo yes || echo no)"

# The C++ build.
fake cmake 'if [ "$1" = --build ]; then
  for i in 11 12 13; do echo "[$i 540 ${i}0.1] Building CXX object src/x/ledger.cc.o"; sleep 1.2; done
fi'
run "$work/out" scripts/build asan
expect_lines "the C++ build" '^build: asan 1[123]/540, about [0-9]+ min left \(ledger\.cc\.o\)$' "$work/out"

# Debian packages.
printf 'build some-library\n' >"$work/scripts/apt-packages.txt"
: >"$work/tests/cluster/apt-packages.txt"
fake id 'echo 0'
fake dpkg-query ':'
fake apt-get 'case $* in *install*) echo "Unpacking some-library"; sleep 3.5 ;; esac'
printf '#!/bin/sh\n' >"$work/scripts/third-party"
run "$work/out" scripts/setup build
expect_lines "installing packages" '^setup: installing Debian packages, [0-9]+ s of about 24 s \(1 unpacked, 0 set up\)$' "$work/out"

# Third-party libraries.
cp scripts/third-party "$work/scripts/"
fake apt-get 'case $* in *source*) for name in fmtlib spdlog simdjson prometheus-cpp; do mkdir -p "$name-1/debian"; : >"$name-1/debian/copyright"; done ;; esac'
fake dpkg-parsechangelog 'echo 1'
fake cmake 'case $* in *fmtlib*) sleep 1.8 ;; esac; for option; do case $option in -DCMAKE_INSTALL_PREFIX=*) mkdir -p "${option#*=}" ;; esac; done'
run "$work/out" scripts/third-party
expect_lines "building third-party libraries" '^third-party: building fmtlib, [0-9]+ s so far$' "$work/out"

# The programs of the test cluster.
fake go 'case $* in *GOVERSION*) echo go1.26.0 ;; build*) sleep 3.5; while [ "$1" != -o ]; do shift; done; : >"$2"; chmod +x "$2" ;; esac'
run "$work/out" env TESSERA_GO="$work/bin/go" tests/cluster/build-tools --only etcd
expect_lines "building Kubernetes" '^\[1/1\] building etcd, [0-9]+ s so far, about [0-9]+ s left in total$' "$work/out"

# Waiting for a cluster.
cat >"$work/waits" <<'EOF'
source tests/cluster/lib/load.sh
CLUSTER=t
report_dead() { :; }
diagnose() { :; }
wait_until 4 "the API server" false || true
EOF
run "$work/out" bash waits
expect_lines "waiting for a part of the cluster" '^waiting for the API server' "$work/out"

# clang-tidy.
cat >"$work/lints" <<'EOF'
source <(sed -n '/^\[ \$# -gt 0 \]/q; p' scripts/lint | sed 's|^cd .*||')
finished=$(mktemp)
part=tidy
lint_tidy() { printf '%s\n' 40 a b c d e f g h i j >"$finished"; sleep 5.5; }
sleep 0
with_progress - describe_part lint_tidy
EOF
run "$work/out" bash lints
expect_lines "clang-tidy" '^lint: tidy 10/40' "$work/out"

# ctest.
printf '#!/bin/sh\n' | tee "$work/scripts/setup" "$work/scripts/build" >/dev/null
fake ctest 'printf "      Start  1: asan.Ledger\n      Start  2: cluster.crowd\n  1/912 Test  #1: asan.Ledger ....   Passed\n"; sleep 3.5'
run "$work/out" scripts/test
expect_lines "the test suites" '^test: 1/912 done, [0-9]+ s so far; running: cluster\.crowd$' "$work/out"
fake ctest 'exit 8'
code=0
run "$work/out" scripts/test || code=$?
expect "a failed suite is a failure" 8 "$code"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
