# shellcheck shell=bash
# Takes commands from the README and the docs, so that tests run what users type. Source this file.
# CHART_ROOT is the checkout.

# with_scheduler_name FILE: prints the manifest with schedulerName, as the README's command for
# Kubernetes before 1.36 does.
with_scheduler_name() {
  local line
  line=$(sed -nE "s#^(sed '.*') deploy/examples/binpack.yaml \\| kubectl apply -f -\$#\\1#p" "$CHART_ROOT/README.md")
  [[ -n $line ]] || { echo "README.md has no such line" && return 1; }
  eval "$line \"\$1\""
}

# page_command PAGE WORDS: prints the command of docs/PAGE that contains these words.
page_command() { sed -n 's/^    //p' "$CHART_ROOT/docs/$1" | grep -F -- "$2"; }
