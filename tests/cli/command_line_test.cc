// Properties that all commands of `tessera` share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "program.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(CommandLine, InvalidOptionsExitWithTwoBeforeAnyFileIsRead) {
  const std::vector<std::vector<std::string>> lines = {
      {"check", "--unit", "lots", "--file", "/nowhere"},
      {"why", "pod", "--unit", "3", "--file", "/nowhere"},
      {"inspect", "--selector", "zone in west", "--file", "/nowhere"},
      {"inspect", "gpu", "--selector", "zone in west", "--file", "/nowhere"},
      {"top", "node", "--selector", "zone in west", "--file", "/nowhere"},
      {"inventory", "--unit", "GB", "--machine", "/nowhere"},
      {"inventory", "--name", "GPU_A", "--machine", "/nowhere"},
      {"topo", "--taken", "0-", "--machine", "/nowhere"},
      {"savings", "--price", "A100=-1", "--file", "/nowhere"},
      {"savings", "--gpu-memory", "T4=15", "--file", "/nowhere"},
      {"savings", "--policy", "ring", "--file", "/nowhere"},
      {"savings", "--memory", "p101", "--file", "/nowhere"},
      {"savings", "--window", "7", "--file", "/nowhere"},
      {"savings", "--reserve", "-1MiB", "--file", "/nowhere"},
  };
  for (const std::vector<std::string>& line : lines) {
    const Outcome outcome = run_in_pipe("tessera", line);
    const std::string option = line[line[1].starts_with("--") ? 1 : 2];
    EXPECT_EQ(outcome.code, 2) << line[0] << " " << option << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(option + ": ")) << line[0];
    EXPECT_THAT(outcome.err, Not(HasSubstr("/nowhere"))) << line[0];
  }
}

// Checks the help of `command` and, recursively, of the subcommands that it lists.
void expect_examples(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  words.emplace_back("--help");
  const std::string help = run_in_pipe("tessera", words).out;
  EXPECT_THAT(help, HasSubstr("Examples:\n")) << testing::PrintToString(command);
  const std::size_t list = help.find("Subcommands:\n");
  std::istringstream lines(list == std::string::npos ? "" : help.substr(list));
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line) && line.starts_with("  ");) {
    if (line[2] != ' ') {
      words.back() = line.substr(2, line.find_first_of(" ,", 2) - 2);
      expect_examples(words);
    }
  }
}

TEST(CommandLine, EveryHelpHasExamples) {
  expect_examples({});
}

}  // namespace
}  // namespace tessera::cli
