# Shared by the tests of scripts: a work directory, a check that counts, and the closing line.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# expect WHAT WANTED GOT: counts a check and prints it if it failed.
expect() {
  if [ "$2" = "$3" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n  wanted: %s\n  got:    %s\n' "$@"
  fi
}
