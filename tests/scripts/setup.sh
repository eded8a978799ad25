#!/usr/bin/env bash
# scripts/setup on a machine whose apt is busy, broken, or has nothing to do: a pretended one.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
expect() { # what, wanted, got
  if [ "$2" = "$3" ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && printf 'FAILED: %s\n  wanted: %s\n  got:    %s\n' "$@"; fi
}

mkdir -p "$work"/{scripts,bin}
cp scripts/setup "$work/scripts/"
printf 'build some-library\nbuild another\ntest clang\n' >"$work/scripts/apt-packages.txt"
printf '#!/bin/sh\n' >"$work/scripts/third-party"
# shellcheck disable=SC2016
{
  printf '#!/bin/sh\ncat "$WORK/installed"\n' >"$work/bin/dpkg-query"
  printf '#!/bin/sh\necho 0\n' >"$work/bin/id"
  printf '#!/bin/sh\n' >"$work/bin/sleep"
  # Each line of "answers" is what one call says; an empty one, or none, is success.
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
expect "what is missing is installed" "0 update,$install another" "$code $calls"

lock='E: Could not get lock /var/lib/apt/lists/lock. It is held by process 712 (apt-get)'
setup "$lock" "$lock" "$lock" "$lock" '' "$lock" ''
expect "who has apt's lock is waited for" "0 update,update,update,update,update,$install another,$install another" "$code $calls"
expect "and that is said once for each step" 2 "$(grep -c 'another program uses apt' <<<"$out")"

setup 'E: Failed to fetch http://mirror' ''
expect "a mirror may stumble" "0 update,update,$install another" "$code $calls"

setup 'E: no such host' 'E: no such host' 'E: no such host' 'E: no such host'
expect "what does not get better ends it" "1 update,update,update" "$code $calls"
expect "with the reason" 1 "$(grep -c 'no such host' <<<"$out")"

printf 'installed some-library\ninstalled another\n' >"$work/installed"
setup ''
expect "nothing to do, nothing to say" "0  " "$code $calls $out"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
