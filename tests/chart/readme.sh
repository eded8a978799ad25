# shellcheck shell=bash
# What people are told to type, taken from the pages they read. Sourced; CHART_ROOT is the checkout.

# with_scheduler_name FILE: what the README's line for Kubernetes before 1.36 makes of a manifest.
with_scheduler_name() {
  local line
  line=$(sed -nE "s#^(sed '.*') deploy/examples/binpack.yaml \\| kubectl apply -f -\$#\\1#p" "$CHART_ROOT/README.md")
  [[ -n $line ]] || { echo "README.md has no such line" && return 1; }
  eval "$line \"\$1\""
}

# page_command PAGE WORDS: the one command of docs/PAGE that has these words in it.
page_command() { sed -n 's/^    //p' "$CHART_ROOT/docs/$1" | grep -F -- "$2"; }
