// Properties that all commands of `tessera` share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <sstream>

#include "base/json_reader.h"
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
      {"savings", "--price", "A100=3,A100=4", "--file", "/nowhere"},
      {"savings", "--price", "", "--file", "/nowhere"},
      {"savings", "--currency", "", "--file", "/nowhere"},
      {"savings", "--exclude-namespace", "ml", "--namespace", "ml", "--file", "/nowhere"},
  };
  for (const std::vector<std::string>& line : lines) {
    const Outcome outcome = run_in_pipe("tessera", line);
    const std::string option = line[line[1].starts_with("--") ? 1 : 2];
    EXPECT_EQ(outcome.code, 2) << line[0] << " " << option << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(option + ": ")) << line[0];
    EXPECT_THAT(outcome.err, Not(HasSubstr("/nowhere"))) << line[0];
  }
}

TEST(CommandLine, OptionsOfPrometheusNeedPrometheus) {
  for (const char* option : {"--window", "--min-age"}) {
    const Outcome outcome = run_in_pipe("tessera", {"savings", option, "7d", "--usage", "/nowhere"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(std::string(option) + " requires --prometheus"));
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

TEST(CommandLine, SuggestsTheNearestCommand) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> lines = {
      {{"tpo"}, "tessera: unknown command \"tpo\"; did you mean \"topo\"?\n"},
      {{"inspct", "--file", "/nowhere"}, "tessera: unknown command \"inspct\"; did you mean \"inspect\"?\n"},
      {{"top", "nods"}, "tessera: unknown command \"top nods\"; did you mean \"top node\"?\n"},
      {{"frobnicate"}, "tessera: unknown command \"frobnicate\"; run \"tessera --help\"\n"},
      {{"help", "top", "pood"}, "tessera: unknown command \"top pood\"; did you mean \"top pod\"?\n"},
      {{"sav"}, "tessera: unknown command \"sav\"; did you mean \"savings\"?\n"},
      {{"sim"}, "tessera: unknown command \"sim\"; did you mean \"simulate\"?\n"},
      {{"in"}, "tessera: unknown command \"in\"; did you mean \"inspect\" or \"inventory\"?\n"},
      {{"x\x1b[31m"}, "tessera: unknown command \"x\\x1b[31m\"; run \"tessera --help\"\n"},
  };
  for (const auto& [line, message] : lines) {
    const Outcome outcome = run_in_pipe("tessera", line);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, message);
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(CommandLine, SuggestsTheNearestFlag) {
  const auto error = [](const std::vector<std::string>& line) {
    const Outcome outcome = run_in_pipe("tessera", line);
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  };
  EXPECT_EQ(error({"why", "x", "--ouput", "json"}),
            "tessera: unknown flag \"--ouput\" of \"tessera why\"; did you mean \"--output\"?\n");
  EXPECT_EQ(error({"check", "--contxt=prod"}),
            "tessera: unknown flag \"--contxt\" of \"tessera check\"; did you mean \"--context\"?\n");
  EXPECT_EQ(error({"top", "node", "--quiet"}),
            "tessera: unknown flag \"--quiet\" of \"tessera top node\"; run \"tessera top node --help\"\n");
  EXPECT_EQ(
      run_in_pipe("kubectl-inspect-gpushare", {"--detials"}).err,
      "tessera: unknown flag \"--detials\" of \"kubectl inspect gpushare\"; did you mean \"--details\"?\n");
}

TEST(CommandLine, SaysInPlainWordsWhatIsWrongWithAValue) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> lines = {
      {{"savings", "--max-utilization", "200"}, "--max-utilization is 200, but must be from 0 to 100; run "},
      {{"savings", "--headroom", "10%"},
       "--headroom is \"10%\", but takes a number from 0 to 1000 without the %; run "},
      {{"why", "--interval", "0"}, "--interval is 0, but must be from 1 to 3600; run "},
      {{"why", "--interval", "soon"}, "--interval is \"soon\", but must be a number from 1 to 3600; run "},
      {{"top"}, "a command is missing: node or pod; run \"tessera top --help\"\n"},
      {{"version", "-o", "xml"}, "--output is \"xml\", but must be text, json or yaml; run "},
      {{"why", "-o", "jsno"},
       "--output is \"jsno\", but must be text, wide, json or yaml; did you mean json?\n"},
      {{"why", "--namespace"}, "--namespace needs a value; run "},
  };
  for (const auto& [line, message] : lines) {
    const Outcome outcome = run_in_pipe("tessera", line);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err.find("tessera: " + message), 0U) << outcome.err;
  }
}

TEST(CommandLine, HelpHasAnExampleOfEveryCommandThatPeopleStartWith) {
  const std::string help = run_in_pipe("tessera", {"--help"}).out;
  for (const char* command : {"check", "why", "top", "topo", "savings", "simulate"}) {
    EXPECT_THAT(help, HasSubstr(std::string("\n  tessera ") + command + " ")) << command;
  }
}

TEST(CommandLine, EveryErrorHasThePrefixOfTheProgram) {
  const std::vector<std::vector<std::string>> lines = {
      {"why", "x", "--file", "/nowhere"},
      {"check", "--file", "/nowhere"},
      {"top", "node", "--file", "/nowhere"},
      {"inspect", "--file", "/nowhere"},
      {"savings", "--file", "/nowhere"},
      {"topo", "n", "--file", "/nowhere"},
      {"topo", "--machine", "/nowhere"},
      {"inventory", "--machine", "/nowhere"},
      {"simulate", "--nodes", "/nowhere", "--pods", "/nowhere"},
      {"check", "--file", "/nowhere", "--watch"},
      {"completion", "csh"},
      {"why", "x", "--unit", "3"},
      {"version", "more"},
  };
  for (const std::vector<std::string>& line : lines) {
    const Outcome outcome = run_in_pipe("tessera", line);
    EXPECT_NE(outcome.code, 0) << line[0];
    EXPECT_EQ(outcome.err.find("tessera: "), 0U) << line[0] << ": " << outcome.err;
    EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  }
}

TEST(CommandLine, HelpIsAlsoACommand) {
  EXPECT_EQ(run_in_pipe("tessera", {"help"}).out, run_in_pipe("tessera", {"--help"}).out);
  EXPECT_EQ(run_in_pipe("tessera", {"help", "why"}).out, run_in_pipe("tessera", {"why", "--help"}).out);
  EXPECT_EQ(run_in_pipe("tessera", {"help", "top", "nodes"}).out,
            run_in_pipe("tessera", {"top", "node", "--help"}).out);
}

TEST(CommandLine, VersionIsAlsoACommand) {
  const std::string text = run_in_pipe("tessera", {"--version"}).out;
  EXPECT_EQ(run_in_pipe("tessera", {"version"}).out, text);
  const auto document = parse_json(run_in_pipe("tessera", {"version", "-o", "json"}).out);
  ASSERT_TRUE(document);
  EXPECT_EQ("tessera " + std::string(document->at("version").as_string()) + "\n", text);
}

}  // namespace
}  // namespace tessera::cli
