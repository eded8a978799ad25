# shellcheck shell=bash
# Takes commands from the docs, so that tests run what users type. Source this file.
# CHART_ROOT is the checkout.

# page_command PAGE WORDS: prints the command of docs/PAGE that contains these words.
page_command() { sed -n 's/^    //p' "$CHART_ROOT/docs/$1" | grep -F -- "$2"; }
