// The output of the original kubectl-inspect-gpushare, byte for byte, on objects that a real API server gave
// out. Where the original's order was random, any of the outputs it had will do.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/strings.h"
#include "cli/inspect.h"
#include "program.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

struct GoldenCase {
  std::string directory;
  std::vector<std::string> words;  // behind the program's name
  std::set<std::string> expected;  // each of them is right
  int code = 0;
};

// "summary-n1.variant2.txt" -> "summary-n1".
std::string stem_of(const std::string& file) {
  return file.substr(0, std::min(file.find(".variant"), file.find(".txt")));
}

std::vector<GoldenCase> golden_cases() {
  const fs::path root = fs::path(TESSERA_SHARED_DATA) / "inspect-golden";
  std::map<std::string, GoldenCase> cases;
  if (!fs::exists(root)) {
    return {};
  }
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".txt") {
      continue;
    }
    const std::string stem = stem_of(entry.path().filename().string());
    const fs::path directory = entry.path().parent_path();
    GoldenCase& one = cases[(directory / stem).string()];
    one.directory = directory.string();
    one.words = {"--file", directory.string()};
    if (stem.starts_with("details")) {
      one.words.emplace_back("-d");
    }
    if (const std::size_t dash = stem.find('-'); dash != std::string::npos) {
      one.words.push_back(stem.substr(dash + 1));
    }
    one.expected.insert(*read_file(entry.path().string()));
    if (const auto code = read_file((directory / (stem + ".rc")).string())) {
      one.code = static_cast<int>(*parse_int(trim(*code)));
    }
  }
  std::vector<GoldenCase> list;
  for (auto& [name, one] : cases) {
    list.push_back(std::move(one));
  }
  return list;
}

class GoldenInspect : public ::testing::Test {
 protected:
  void SetUp() override {
    cases_ = golden_cases();
    if (cases_.empty()) {
      GTEST_SKIP() << TESSERA_SHARED_DATA << "/inspect-golden is not here: nothing to compare with";
    }
  }

  std::vector<GoldenCase> cases_;
};

void expect_one_of(const GoldenCase& one, const Outcome& outcome) {
  EXPECT_EQ(outcome.code, one.code) << one.directory;
  EXPECT_TRUE(one.expected.contains(outcome.out)) << one.directory << " " << one.words.back() << " printed\n"
                                                  << outcome.out << "and not\n"
                                                  << *one.expected.begin();
}

TEST_F(GoldenInspect, PrintsTheOriginalsBytesThroughAPipe) {
  for (const GoldenCase& one : cases_) {
    const Outcome outcome = run_in_pipe("kubectl-inspect-gpushare", one.words);
    expect_one_of(one, outcome);
    EXPECT_EQ(outcome.err, "") << one.directory << ": the original wrote nothing there";
  }
}

TEST_F(GoldenInspect, PrintsTheOriginalsBytesOnATerminal) {
  for (const GoldenCase& one : cases_) {
    expect_one_of(one, run_on_terminal("kubectl-inspect-gpushare", one.words,
                                       {{"TERM", "xterm-256color"}, {"LANG", "C.UTF-8"}}));
  }
}

TEST_F(GoldenInspect, TakesTheOriginalsFlags) {
  const GoldenCase& details = *std::ranges::find_if(cases_, [](const GoldenCase& one) {
    return one.directory.ends_with("01-one-gpu-gib") && one.words.back() == "-d";
  });
  for (const char* flag : {"-d", "--d", "-d=true", "--d=true", "--details"}) {
    GoldenCase spelled = details;
    spelled.words.back() = flag;
    expect_one_of(spelled, run_in_pipe("kubectl-inspect-gpushare", spelled.words));
  }
}

TEST_F(GoldenInspect, IsTheSameAsASubcommand) {
  for (const GoldenCase& one : cases_) {
    GoldenCase spelled = one;
    spelled.words.insert(spelled.words.begin(), {"inspect", "gpushare"});
    expect_one_of(spelled, run_in_pipe("tessera", spelled.words));
    spelled.words.erase(spelled.words.begin() + 1);
    expect_one_of(spelled, run_in_pipe("tessera", spelled.words));
  }
}

}  // namespace
}  // namespace tessera::cli
