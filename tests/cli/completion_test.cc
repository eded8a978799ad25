#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "program.h"

namespace tessera::cli {
namespace {

// What bash offers behind these words.
std::string completed(const std::string& words) {
  const std::string script = "source <(" + program_path("tessera") + " completion bash); COMP_WORDS=(" +
                             words +
                             "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _tessera; echo -n \"${COMPREPLY[*]}\"";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      ::popen(("bash -c '" + script + "'").c_str(), "r"), ::pclose);
  std::string out;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) {
    out += static_cast<char>(c);
  }
  return out;
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

TEST(Completion, KnowsTwoShells) {
  EXPECT_EQ(run_in_pipe("tessera", {"completion", "zsh"}).out.substr(0, 8), "autoload");
  EXPECT_EQ(run_in_pipe("tessera", {"completion", "csh"}).code, 2);
}

}  // namespace
}  // namespace tessera::cli
