// The output equals that of the original kubectl-inspect-gpushare byte for byte: on objects from a
// real API server if that data is available, and always on a few objects of our own. If the order
// of the original's output was random, any of its outputs is accepted.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/strings.h"
#include "cli/inspect/inspect.h"
#include "golden.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

struct GoldenCase {
  std::string directory;
  std::vector<std::string> words;  // arguments
  std::set<std::string> expected;  // any of them is accepted
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
      GTEST_SKIP() << TESSERA_SHARED_DATA
                   << "/inspect-golden does not exist, so there is nothing to compare with";
    }
  }

  std::vector<GoldenCase> cases_;
};

void expect_one_of(const GoldenCase& one, const Outcome& outcome) {
  EXPECT_EQ(outcome.code, one.code) << one.directory;
  EXPECT_TRUE(one.expected.contains(outcome.out)) << one.directory << " " << one.words.back() << " printed\n"
                                                  << outcome.out << "instead of\n"
                                                  << *one.expected.begin();
}

TEST_F(GoldenInspect, PrintsTheSameBytesAsTheOriginalToAPipe) {
  for (const GoldenCase& one : cases_) {
    const Outcome outcome = run_in_pipe("kubectl-inspect-gpushare", one.words);
    expect_one_of(one, outcome);
    EXPECT_EQ(outcome.err, "") << one.directory << ": the original wrote nothing to standard error";
  }
}

TEST_F(GoldenInspect, PrintsTheSameBytesAsTheOriginalOnATerminal) {
  for (const GoldenCase& one : cases_) {
    expect_one_of(one, run_on_terminal("kubectl-inspect-gpushare", one.words,
                                       {{"TERM", "xterm-256color"}, {"LANG", "C.UTF-8"}}));
  }
}

TEST_F(GoldenInspect, AcceptsTheFlagsOfTheOriginal) {
  const GoldenCase& details = *std::ranges::find_if(cases_, [](const GoldenCase& one) {
    return one.directory.ends_with("01-one-gpu-gib") && one.words.back() == "-d";
  });
  for (const char* flag : {"-d", "--d", "-d=true", "--d=true", "--details"}) {
    GoldenCase spelled = details;
    spelled.words.back() = flag;
    expect_one_of(spelled, run_in_pipe("kubectl-inspect-gpushare", spelled.words));
  }
}

// Only the plugins imitate the error of the original about a missing node (NoSuchNode).
TEST_F(GoldenInspect, PrintsTheSameAsASubcommand) {
  for (const GoldenCase& one : cases_) {
    if (one.code != 0) {
      continue;
    }
    GoldenCase spelled = one;
    spelled.words.insert(spelled.words.begin(), {"inspect", "gpushare"});
    expect_one_of(spelled, run_in_pipe("tessera", spelled.words));
    spelled.words.erase(spelled.words.begin() + 1);
    expect_one_of(spelled, run_in_pipe("tessera", spelled.words));
  }
}

Texts at_gpu(int index, int units) {
  return {{"ALIYUN_COM_GPU_MEM_IDX", std::to_string(index)},
          {"ALIYUN_COM_GPU_MEM_POD", std::to_string(units)},
          {"ALIYUN_COM_GPU_MEM_DEV", "24"},
          {"ALIYUN_COM_GPU_MEM_ASSIGNED", "true"},
          {"ALIYUN_COM_GPU_MEM_ASSUME_TIME", "1700000000000000000"}};
}

void expect_bytes(const std::string& golden, const std::vector<std::string>& words) {
  const Outcome piped = run_in_pipe("kubectl-inspect-gpushare", words);
  expect_golden(golden, piped.out);
  EXPECT_EQ(piped.err, "") << golden;
  EXPECT_EQ(
      run_on_terminal("kubectl-inspect-gpushare", words, {{"TERM", "xterm-256color"}, {"LANG", "C.UTF-8"}})
          .out,
      piped.out)
      << golden;
}

// The golden files follow the known layout of the original. Each has one node, because the
// original's order of several nodes is random.
TEST(OwnGoldenInspect, PrintsTheSameBytesAsTheOriginal) {
  SavedCluster cluster;
  cluster.plain_node("cpu-only", {});
  cluster.plain_node("gpu-large", {.units = 96, .gpus = 4});
  cluster.plain_node("gpu-small", {.units = 15276, .gpus = 1});
  cluster.pod("shop", "ranking-0", "gpu-large", {.units = 7, .annotations = at_gpu(0, 7)});
  cluster.pod("shop", "ranking-1", "gpu-large", {.units = 11, .annotations = at_gpu(3, 11)});
  cluster.pod("shop", "nowhere", "gpu-large", {.units = 2});
  cluster.pod(
      "lab", "pair", "gpu-large",
      {.units = 10, .annotations = {{"scheduler.framework.gpushare.allocation", R"({"0":{"1":5,"2":5}})"}}});
  cluster.pod("lab", "over", "gpu-large", {.units = 9, .annotations = at_gpu(1, 9), .phase = "Succeeded"});
  cluster.pod("lab", "fine", "gpu-small", {.units = 4096, .annotations = at_gpu(0, 4096)});
  const std::string saved = cluster.write();
  expect_bytes("original-summary.txt", {"--file", saved, "gpu-large"});
  expect_bytes("original-details.txt", {"--file", saved, "-d", "gpu-large"});
  expect_bytes("original-mib-summary.txt", {"--file", saved, "gpu-small"});
  expect_bytes("original-mib-details.txt", {"--file", saved, "-d", "gpu-small"});
  expect_bytes("original-no-gpus.txt", {"--file", saved, "cpu-only"});
  expect_bytes("original-unknown-node.txt", {"--file", saved, "gpu-gone"});
}

}  // namespace
}  // namespace tessera::cli
