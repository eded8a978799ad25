// The words of `tessera savings`: what it says about money, about what it does not know, and about
// options that match nothing.
#include <gmock/gmock.h>

#include <algorithm>
#include <boost/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/json_reader.h"
#include "golden.h"
#include "savings_run.h"

namespace tessera::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// Returns text without its line breaks.
std::string joined(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

// Runs the command with this CSV file instead of the cluster's measurements.
Outcome with_csv(const std::string& csv, const GpuCluster& cluster, SavingsOptions options = {}) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(write_file(directory / "usage.csv", csv));
  options.cluster.file = cluster.write();
  options.usage = directory / "usage.csv";
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_savings(options, out, err, {});
  return {code, joined(out.str()), err.str()};
}

TEST(SavingsReport, CountsMoneyByModel) {
  GpuCluster cluster;
  fill_two_models(cluster);
  const std::string text = joined(savings({.price = "A100=3,T4=0.5"}, cluster).out);
  EXPECT_THAT(text, HasSubstr("Sharing frees 2 GPUs, worth 3.50 USD per hour, 2,555 USD per month."));
  EXPECT_THAT(
      text,
      HasSubstr("1 node with 1 GPU would hold no GPU pod any more; removing it saves 0.50 USD per hour, "
                "365 USD per month."));
  // 1 * 0.5 for the T4; nothing is known about the A100.
  const std::string partly = joined(savings({.price = "T4=0.5", .currency = "EUR"}, cluster).out);
  EXPECT_THAT(partly, HasSubstr("worth at least 0.50 EUR per hour, 365 EUR per month (no price for "
                                "NVIDIA-A100-SXM4-80GB)."));
  EXPECT_THAT(partly, HasSubstr("removing it saves 0.50 EUR per hour, 365 EUR per month."));
  EXPECT_THAT(savings({.price = "2"}, cluster).out, HasSubstr("worth 4.00 USD per hour"));
}

TEST(SavingsReport, StatesNoAmountWithoutAPrice) {
  GpuCluster cluster;
  fill_two_models(cluster);
  const std::string text = joined(savings({.price = "H100=3"}, cluster).out);
  EXPECT_THAT(text, HasSubstr("Sharing frees 2 GPUs. 1 node with 1 GPU would hold no GPU pod any more. "));
  EXPECT_THAT(text, HasSubstr("The value of the freed GPUs is unknown: there is no price for "
                              "NVIDIA-A100-SXM4-80GB and Tesla-T4."));
  EXPECT_THAT(text, Not(HasSubstr("0.00")));
  const auto document = parse_json(savings({.price = "H100=3", .output = "json"}, cluster).out);
  ASSERT_TRUE(document);
  EXPECT_TRUE(document->at("money").at("freedGpusPerHour").is_null());
}

// 2 T4 of an empty node, for 0.5 each.
TEST(SavingsReport, StatesTheAmountOfNodesThatAreEmptyNow) {
  GpuCluster cluster;
  fill_two_models(cluster);
  cluster.node("t4-empty", {.gpus = 2});
  EXPECT_THAT(
      joined(savings({.price = "T4=0.5"}, cluster).out),
      HasSubstr("Already now, without sharing, 1 node with 2 GPUs holds no GPU pod; removing it saves "
                "1.00 USD per hour, 730 USD per month."));
  EXPECT_THAT(joined(savings({}, cluster).out), HasSubstr("1 node with 2 GPUs holds no GPU pod. "));
}

TEST(SavingsReport, SaysThatNothingIsKnownIfNoPodWasMeasured) {
  GpuCluster cluster;
  fill_small(cluster);
  const std::string header = "namespace,pod,memory_mib,utilization_percent\n";
  const Outcome strangers = with_csv(header + "ml,other,1,1\nml,other,2,2\nml,more,1,1\n", cluster);
  EXPECT_EQ(strangers.code, 0);
  EXPECT_THAT(strangers.out, StartsWith("What sharing would save cannot be said: 0 of 4 single-GPU pods have "
                                        "measurements; 3 rows of /"));
  EXPECT_THAT(strangers.out, HasSubstr("usage.csv match no pod."));
  EXPECT_THAT(strangers.err, HasSubstr("match no pod of the cluster: ml/more, ml/other\n"));
  EXPECT_THAT(strangers.out, Not(HasSubstr("save nothing")));
  const Outcome empty = with_csv(header, cluster);
  EXPECT_THAT(empty.out, StartsWith("What sharing would save cannot be said: 0 of 4 single-GPU pods have "
                                    "measurements. "));
  EXPECT_THAT(empty.err, HasSubstr("usage.csv has no rows\n"));
}

TEST(SavingsReport, HintsAtIgnoringUtilizationThatWasNotMeasured) {
  GpuCluster cluster;
  fill_small(cluster);
  const std::string csv = "namespace,pod,memory_mib\nml,p0,100\nml,p1,100\nml,p2,100\nml,p3,100\n";
  const Outcome outcome = with_csv(csv, cluster);
  EXPECT_THAT(outcome.out,
              StartsWith("What sharing would save cannot be said: 0 of 4 single-GPU pods have both "
                         "memory and utilization measured. "));
  EXPECT_THAT(outcome.out, HasSubstr("pass --ignore-utilization to plan by memory only."));
  EXPECT_THAT(with_csv(csv, cluster, {.ignore_utilization = true}).out,
              StartsWith("The pods on your 4 GPUs fit on 1."));
}

TEST(SavingsReport, SaysHowManyPodsAreUnknown) {
  GpuCluster cluster;
  cluster.node("a", {.gpus = 3});
  cluster.pod("ml/busy", "a", {.memory_mib = 100, .utilization = 99});
  cluster.pod("ml/new", "a", {});
  cluster.pod("web/other", "a", {.memory_mib = 100, .utilization = 1});
  EXPECT_THAT(joined(savings({.namespaces = {"ml"}}, cluster).out),
              StartsWith("The pods on your 3 GPUs need all of them, as far as is known: too little is known "
                         "about 2 of 3 single-GPU pods."));
  EXPECT_THAT(joined(savings({.excluded_namespaces = {"ml", "web"}}, cluster).out),
              StartsWith("What sharing would save cannot be said: of 3 single-GPU pods, 3 are excluded by "
                         "--namespace, --exclude-namespace or --selector."));
}

TEST(SavingsReport, WithoutASourceNothingIsKnown) {
  GpuCluster cluster;
  fill_small(cluster);
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(run_savings({.cluster = {.file = cluster.write()}}, out, err, {}), 0);
  EXPECT_THAT(out.str(), StartsWith("What sharing would save cannot be said: nothing was measured.\n"));
  EXPECT_THAT(out.str(), HasSubstr("Pass --prometheus URL"));
}

// The answer is certain: each pod needs 3 of the 4 CPUs of its node.
TEST(SavingsReport, ListsPodsThatStayAloneWithTheReasonAndTheLowerBound) {
  GpuCluster cluster;
  for (const char* node : {"a", "b"}) {
    cluster.node(node, {.gpus = 1, .cpu = "4"});
    cluster.pod(std::string("ml/on-") + node, node, {.cpu = "3", .memory_mib = 1000, .utilization = 1});
  }
  const std::string text = savings({}, cluster).out;
  EXPECT_THAT(text, StartsWith("The pods on your 2 GPUs need all of them: sharing would save nothing.\n"));
  EXPECT_THAT(text, HasSubstr("2 pods could share, but would be alone on their GPUs:\n"
                              "PODS  BECAUSE                                           WHICH\n"
                              "2     the nodes of other pods have too little free CPU  ml/on-a, ml/on-b\n"));
  EXPECT_THAT(text, Not(HasSubstr("can share 2 GPUs")));
  EXPECT_THAT(text, HasSubstr("No placement can need fewer than 1 GPU: the shares add up to 1."));
  EXPECT_THAT(savings({.output = "md"}, cluster).out, HasSubstr("would be alone on their GPU"));
  const auto document = parse_json(savings({.output = "json"}, cluster).out);
  ASSERT_TRUE(document);
  EXPECT_EQ(document->at("pods").at(0).at("share").at("alone").at("reasons").at(0), "cpu");
}

TEST(SavingsReport, HasItsWarningsInEveryFormat) {
  GpuCluster cluster;
  fill_small(cluster);
  for (const char* format : {"text", "md", "json", "yaml", "svg"}) {
    const Outcome outcome = savings({.price = "H100=1", .output = format}, cluster);
    EXPECT_THAT(outcome.out, HasSubstr("no GPU has this model")) << format;
    EXPECT_THAT(outcome.err, HasSubstr("warning: --price \"H100\": no GPU has this model")) << format;
  }
  // On a terminal, the text shows them once.
  std::ostringstream out;
  std::ostringstream err;
  SavingsOptions options{.usage = cluster.usage_file(), .price = "H100=1"};
  options.cluster.file = cluster.write();
  EXPECT_EQ(run_savings(options, out, err, {.is_terminal = true, .columns = 80}), 0);
  EXPECT_THAT(out.str(), HasSubstr("Warnings\n- --price"));
  EXPECT_EQ(err.str(), "");
}

TEST(SavingsReport, WarnsAboutOptionsThatMatchNothing) {
  GpuCluster cluster;
  fill_two_models(cluster);
  const auto warnings = [&](const SavingsOptions& options) { return report_of(options, cluster).warnings; };
  EXPECT_THAT(warnings({.price = "H100=3"}),
              ElementsAre("--price \"H100\": no GPU has this model; the models are NVIDIA-A100-SXM4-80GB, "
                          "Tesla-T4"));
  EXPECT_THAT(warnings({.gpu_memory = "T5=15GiB"}), ElementsAre(HasSubstr("--gpu-memory \"T5\"")));
  EXPECT_THAT(
      warnings({.namespaces = {"nope"}}),
      ElementsAre("--namespace \"nope\": no pod there holds a GPU; the namespaces of such pods are ml"));
  EXPECT_THAT(warnings({.excluded_namespaces = {"nope"}}),
              ElementsAre(HasSubstr("--exclude-namespace \"nope\": no pod there holds a GPU")));
  EXPECT_THAT(warnings({.selector = "app=nothing"}),
              ElementsAre("--selector \"app=nothing\": no pod with GPUs has these labels"));
  EXPECT_THAT(
      warnings({.pool_label = "nonexist"}),
      ElementsAre("--pool-label \"nonexist\": no GPU node has this label, so GPUs are grouped by model"));
  EXPECT_THAT(warnings({.namespaces = {"ml"},
                        .selector = "!app",
                        .gpu_memory = "T4=15GiB",
                        .pool_label = "nvidia.com/gpu.product",
                        .price = "A100=3,1"}),
              IsEmpty());
}

TEST(SavingsReport, WrapsProseAtTheWidthOfTheTerminal) {
  GpuCluster cluster;
  fill_small(cluster);
  const SavingsView view = view_of({}, cluster);
  for (const unsigned columns : {60U, 0U, 140U}) {
    const std::string text = savings_text(view, {.is_terminal = columns > 0, .columns = columns});
    const std::size_t at = text.find("\nRules of this plan\n");
    std::istringstream prose(text.substr(at));
    std::size_t widest = 0;
    for (std::string line; std::getline(prose, line);) {
      widest = std::max(widest, line.size());
    }
    const std::size_t limit = columns > 0 ? columns : 98;
    EXPECT_LE(widest, limit);
    EXPECT_GE(widest, limit - 12);
  }
}

// The example of docs/savings.md.
//   training    16 GPUs: three pods with several GPUs stay whole                         16
//   notebooks    6 GPUs: notebook-5 was not measured and stays whole. Four idle pods of 900 MiB
//                need 2 units (1592 MiB) each, and notebook-4 10 units (10112 MiB): 18 of the 21
//                units of an A10G ((23028 - 512) / 1024)                                  2
//   inference   18 GPUs: video-0 is busy, and llm-0 needs 19 units; both stay whole (2). Shares:
//                asr 12 units (11312 MiB), embed 7 (6512 MiB), ranker 4 (3392 MiB). The largest
//                first: 2 GPUs with asr, 2 GPUs with 2 embed each, 4 GPUs with up to 3 rankers (8).
//                                                                                        10
// A better order needs 7 GPUs for the shares: embed with two rankers fills a GPU (15 units).
TEST(SavingsReport, AnswersForTheExampleOfTheGuide) {
  SavingsOptions options{.price = "A100=3.20,A10G=1.00,T4=0.35"};
  options.cluster.file = example_directory();
  options.usage = example_directory() + "/usage.csv";
  auto made = make_savings(options);
  ASSERT_TRUE(made) << made.error().text();
  SavingsView view = *std::move(made);
  EXPECT_EQ(view.report.gpus, 48);
  EXPECT_EQ(view.report.held, 40);
  EXPECT_EQ(view.report.needed, 28);
  ASSERT_EQ(view.report.groups.size(), 3U);
  EXPECT_EQ(view.report.groups[0].needed(), 10);  // inference
  EXPECT_EQ(view.report.groups[0].at_least, 9);   // 2 whole, 92 units on GPUs of 15
  EXPECT_EQ(view.report.groups[1].needed(), 2);   // notebooks
  EXPECT_EQ(view.report.groups[2].needed(), 16);  // training
  EXPECT_EQ(view.report.idle(), 4);
  EXPECT_THAT(view.report.warnings, IsEmpty());
  view.report.measured_by = "deploy/examples/savings/usage.csv";  // as from the root of the repository
  expect_golden("savings.txt", savings_text(view, {}));
  expect_golden("savings.md", savings_markdown(view));
  expect_golden("savings.svg", savings_svg(view));
  const auto document = parse_json(savings_json(view, false));
  ASSERT_TRUE(document) << document.error().text();
  EXPECT_EQ(document->at("answer"), "The pods on 40 of your 48 GPUs fit on 28.");
  EXPECT_EQ(document->at("needed"), 28);
  EXPECT_EQ(document->at("pools").at(0).at("freedNodes").as_array().size(), 2U);
  EXPECT_EQ(document->at("whole").at(0).at("reason"), "several_gpus");
  EXPECT_EQ(document->at("money").at("freedGpusPerHour").to_number<double>(), 6.8);
  EXPECT_THAT(savings_json(view, true), HasSubstr("\nneeded: 28\n"));
}

TEST(SavingsReport, EscapesHostileNames) {
  GpuCluster cluster;
  const std::string evil = "x\"><script>alert(1)</script>|*\n\x1b[31m";
  cluster.node("a", {.gpus = 2, .model = evil, .pool = evil});
  cluster.pod("ml/" + evil, "a", {.gpus = 2});
  const std::string svg = savings({.output = "svg"}, cluster).out;
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("\x1b")));
  const std::string md = savings({.output = "md"}, cluster).out;
  for (std::size_t at = md.find('<'); at != std::string::npos; at = md.find('<', at + 1)) {
    EXPECT_EQ(md[at - 1], '\\') << md.substr(at, 20);
  }
  EXPECT_THAT(md, HasSubstr("\\<script\\>"));
  EXPECT_THAT(md, Not(HasSubstr("\x1b")));
  const std::string text = savings({}, cluster).out;
  EXPECT_THAT(text, HasSubstr("\\u000a\\u001b[31m"));
  EXPECT_THAT(savings({.output = "json"}, cluster).out, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace tessera::cli
