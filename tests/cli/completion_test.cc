#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "../base/temporary_directory.h"
#include "program.h"

namespace tessera::cli {
namespace {

std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string out;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) {
    out += static_cast<char>(c);
  }
  return out;
}

// Returns what bash offers after these words.
std::string completed(const std::string& words) {
  return output_of("bash -c 'source <(" + program_path("tessera") + " completion bash); COMP_WORDS=(" +
                   words + "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _tessera; echo -n \"${COMPREPLY[*]}\"'");
}

// Returns what zsh offers after these words. Calls the function the way zsh's bashcompinit does.
std::string completed_in_zsh(const std::string& words) {
  const TemporaryDirectory home;
  return output_of("ZDOTDIR=" + home.path() + " zsh -f -c 'source <(" + program_path("tessera") +
                   " completion zsh); COMP_WORDS=(" + words +
                   "); COMP_CWORD=$((${#COMP_WORDS}-1)); () { emulate -L sh; setopt kshglob noshglob "
                   "braceexpand nokshautoload; _tessera_words }; print -n \"$COMPREPLY\"' 2>&1");
}

TEST(Completion, OffersCommandsOptionsAndTheirValues) {
  EXPECT_EQ(completed("tessera insp"), "inspect");
  EXPECT_EQ(completed("tessera inspect gpu"), "gpushare gpu");
  EXPECT_EQ(completed("tessera why --out"), "--output");
  EXPECT_EQ(completed("tessera inspect gpu --sort-by u"), "used");
  EXPECT_EQ(completed("tessera inspect gpushare -o \"\""), "text wide json yaml");
  EXPECT_EQ(completed("tessera topo --mach"), "--machine");
  EXPECT_EQ(completed("tessera nothing-like-it"), "");
}

TEST(Completion, OffersTheSameInZsh) {
  if (output_of("command -v zsh").empty()) {
    GTEST_SKIP() << "zsh is not installed";
  }
  // The function returns all words; zsh itself selects those that start with the typed prefix.
  EXPECT_TRUE(completed_in_zsh("tessera insp").starts_with("check completion inspect inventory "));
  EXPECT_TRUE(completed_in_zsh("tessera inspect gpu").starts_with("gpushare gpu --"));
  EXPECT_EQ(completed_in_zsh("tessera inspect gpu --sort-by u"), "name all used free");
}

TEST(Completion, SupportsBashAndZsh) {
  EXPECT_EQ(run_in_pipe("tessera", {"completion", "zsh"}).out.substr(0, 17), "#compdef tessera ")
      << "compinit only registers files that start with #compdef";
  EXPECT_EQ(run_in_pipe("tessera", {"completion", "csh"}).code, 2);
}

}  // namespace
}  // namespace tessera::cli
