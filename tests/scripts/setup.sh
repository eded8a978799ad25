#!/usr/bin/env bash
# scripts/setup on a machine whose apt is locked, broken, or has nothing to do. apt is a fake.
# shellcheck source=tests/scripts/lib.sh
. "$(dirname "$0")/lib.sh"

mkdir -p "$work"/{scripts,bin}
cp scripts/setup scripts/progress.sh "$work/scripts/"
printf 'build some-library\nbuild another\ntest clang\n' >"$work/scripts/apt-packages.txt"
printf '#!/bin/sh\n' >"$work/scripts/third-party"
# shellcheck disable=SC2016
{
  printf '#!/bin/sh\ncat "$WORK/installed"\n' >"$work/bin/dpkg-query"
  printf '#!/bin/sh\necho 0\n' >"$work/bin/id"
  printf '#!/bin/sh\n' >"$work/bin/sleep"
  # Each line of "answers" is the error of one call; an empty or missing line is a success.
  printf '#!/bin/sh\necho "$*" >>"$WORK/calls"\na=$(sed -n "$(wc -l <"$WORK/calls")p" "$WORK/answers")\n[ -z "$a" ] || { echo "$a" >&2; exit 100; }\n' \
    >"$work/bin/apt-get"
}
chmod +x "$work"/bin/* "$work/scripts/third-party"

# setup ANSWER...: runs it; sets code, out, calls.
setup() {
  printf '%s\n' "$@" >"$work/answers"
  : >"$work/calls"
  code=0
  out=$(WORK=$work PATH=$work/bin:$PATH TESSERA_CACHE=$work/cache "$work/scripts/setup" build 2>&1) || code=$?
  calls=$(sed 's/^-qq -o DPkg::Lock::Timeout=600 //' "$work/calls" | paste -sd, -)
}
install='-y --no-install-recommends install'

printf 'installed some-library\n' >"$work/installed"
setup ''
expect "missing packages are installed" "0 update,$install another" "$code $calls"

lock='E: Could not get lock /var/lib/apt/lists/lock. It is held by process 712 (apt-get)'
setup "$lock" "$lock" "$lock" "$lock" '' "$lock" ''
expect "setup waits for the program that holds apt's lock" "0 update,update,update,update,update,$install another,$install another" "$code $calls"
expect "the wait is reported once per step" 2 "$(grep -c 'another program uses apt' <<<"$out")"

setup 'E: Failed to fetch http://mirror' ''
expect "a failure of a mirror is retried" "0 update,update,$install another" "$code $calls"

setup 'E: no such host' 'E: no such host' 'E: no such host' 'E: no such host'
expect "setup gives up after three attempts" "1 update,update,update" "$code $calls"
expect "setup prints the reason" 1 "$(grep -c 'no such host' <<<"$out")"

printf 'installed some-library\ninstalled another\n' >"$work/installed"
setup ''
expect "without anything to install, setup prints nothing" "0  " "$code $calls $out"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
