#!/usr/bin/env bash
# scripts/lint-words finds a phrase, names the file, the line and what to write instead, and
# respects exceptions, exempt lines and the maximum per tree.
# shellcheck source=tests/scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"

mkdir -p "$work"/{scripts,src,docs}
cp scripts/lint-words "$work/scripts/"
cat >"$work/scripts/lint-words.txt" <<'EOF'
# a comment
\b(told|tells?)\b
  write: report
  except: tell [^.]* apart
  most: docs 1
\banew\b
  write: again
EOF
git -C "$work" init -q

# words: runs the check; prints its exit code and its findings.
words() {
  local code=0 out
  out=$("$work/scripts/lint-words" "$@") || code=$?
  printf '%s %s' "$code" "$(grep -v '^words:' <<<"$out" || true)"
}

echo 'All is fine.' >"$work/src/a.cc"
expect "a tree without such phrases is clean" "0 " "$(words)"
printf 'fine\n// The node is Told of it.\n' >"$work/src/a.cc"
expect "a finding names file, line, phrase and what to write" '1 src/a.cc:2: "Told": write report' "$(words)"
echo '// To tell two GPUs apart.' >"$work/src/a.cc"
expect "an exception is not a finding" "0 " "$(words)"
echo '// To tell two GPUs apart, and to tell a user.' >"$work/src/a.cc"
expect "an exception covers only its own part of the line" '1 src/a.cc:1: "tell": write report' "$(words)"
echo 'int told_driver = 0;' >"$work/src/a.cc"
expect "a part of an identifier is not a finding" "0 " "$(words)"
echo '// As the tale tells. lint-words: ok' >"$work/src/a.cc"
expect "an exempt line is not a finding" "0 " "$(words)"
rm "$work/src/a.cc"
echo 'It tells.' >"$work/docs/a.md"
expect "a tree may have as many findings as the list allows" "0 " "$(words)"
echo 'It was told.' >"$work/docs/b.md"
expect "but not more" "1 docs/a.md:1: \"tells\": write report
docs/b.md:1: \"told\": write report
  docs has 2 of these and may have 1" "$(words)"
expect "a named file may have none" "1 $work/docs/a.md:1: \"tells\": write report" "$(words "$work/docs/a.md")"
expect "counts are per pattern and tree" "2 0" \
  "$("$work/scripts/lint-words" --counts | awk 'NR > 1 { printf "%s%s", sep, $3; sep = " " }')"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
