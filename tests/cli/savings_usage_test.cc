// Measurements for `tessera savings`: CSV files, and a server that answers as Prometheus does.
#include <gmock/gmock.h>

#include <boost/json.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "cli/savings/savings.h"
#include "gpu_cluster.h"
#include "http/server.h"

namespace tessera::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<Measurements> csv(const std::string& text, const Statistic& memory = Statistic::peak()) {
  return parse_usage_csv(text, memory, Statistic::mean());
}

TEST(UsageCsv, RowsOfTheSameGpuAreSamples) {
  const std::string text =
      "namespace,pod,gpu,memory_mib,utilization_percent\n"
      "ml,p,0,100,10\nml,p,0,300,30\nml,p,0,200,\nml,p,1,50,0\n";
  const auto measured = csv(text);
  ASSERT_TRUE(measured) << measured.error().text();
  const auto& gpus = measured->pods.at("ml/p");
  EXPECT_EQ(gpus.at("0").memory_mib, 300);
  EXPECT_EQ(gpus.at("0").utilization_percent, 20);
  EXPECT_EQ(gpus.at("1").memory_mib, 50);
  EXPECT_EQ(csv(text, Statistic::mean())->pods.at("ml/p").at("0").memory_mib, 200);
  EXPECT_EQ(csv(text, *Statistic::parse("p50"))->pods.at("ml/p").at("0").memory_mib, 200);
  EXPECT_EQ(csv(text, *Statistic::parse("p75"))->pods.at("ml/p").at("0").memory_mib, 250);
}

TEST(UsageCsv, NeedsOnlyNamespacePodAndMemory) {
  const auto measured = csv("pod,extra,namespace,memory_mib\np,x,ml,1.5\n");
  ASSERT_TRUE(measured) << measured.error().text();
  EXPECT_EQ(measured->pods.at("ml/p").at("").memory_mib, 1.5);
  EXPECT_FALSE(measured->pods.at("ml/p").at("").utilization_percent);
}

TEST(UsageCsv, RejectsWhatIsNoMeasurement) {
  const std::string header = "namespace,pod,memory_mib,utilization_percent\n";
  for (const char* row :
       {"ml,p,-1,0", "ml,p,nan,0", "ml,p,inf,0", "ml,p,1e3,0", "ml,p,16777217,0", "ml,p,,0", "ml,p,1,-0.5",
        "ml,p,1,101", "ml,p,1,nan", "ml,,1,1", ",p,1,1", "ml,p,1", "ml,\"p,1,1"}) {
    const auto measured = csv(header + "ml,fine,1,1\n" + row + "\n");
    ASSERT_FALSE(measured) << row;
    EXPECT_THAT(measured.error().text(), HasSubstr("line 3")) << row;
  }
  EXPECT_THAT(csv("namespace,pod\n").error().text(), HasSubstr("no column memory_mib"));
  EXPECT_THAT(csv("namespace,pod,memory\n").error().text(),
              HasSubstr("the columns are \"namespace\", \"pod\" and \"memory\"; did you mean memory_mib"));
  EXPECT_THAT(csv("namespace,pod,memory_mib,memory_mib\n").error().text(),
              HasSubstr("two columns memory_mib"));
  EXPECT_FALSE(csv(""));
  EXPECT_FALSE(csv(std::string("\x1F\x8B", 2)));
}

TEST(UsageCsv, ReadsManyRows) {
  std::string text = "namespace,pod,memory_mib\n";
  for (int i = 0; i < 200'000; ++i) {
    text += "ml,p,7\n";
  }
  EXPECT_EQ(csv(text)->pods.at("ml/p").at("").memory_mib, 7);
}

TEST(QueryAnswer, LeavesOutValuesThatAreNotNumbers) {
  std::vector<std::string> warnings;
  const auto samples = parse_query_answer(
      R"({"status":"success","warnings":["partial response"],"data":{"resultType":"vector","result":[
        {"metric":{"pod":"p"},"value":[1731888000.123,"12.5"]},
        {"metric":{"pod":"q"},"value":[1731888000,"NaN"]},
        {"metric":{"pod":"r"},"value":[1731888000,"+Inf"]},
        {"metric":{"pod":"s"},"value":[1731888000,"12 apples"]}]}})",
      warnings);
  ASSERT_TRUE(samples) << samples.error().text();
  ASSERT_EQ(samples->size(), 1U);
  EXPECT_EQ((*samples)[0].value, 12.5);
  EXPECT_THAT(warnings, ElementsAre("Prometheus: \"partial response\""));
}

TEST(QueryAnswer, RejectsOtherDocuments) {
  std::vector<std::string> warnings;
  for (
      const char* body :
      {"", "<html>", "[]", "{}", R"({"status":"success"})", R"({"status":7})",
       R"({"status":"success","data":{"resultType":"matrix","result":[]}})",
       R"({"status":"success","data":{"resultType":"vector","result":{}}})",
       R"({"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1]}]}})",
       R"({"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,2]}]}})",
       R"({"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":1},"value":[1,"2"]}]}})",
       R"({"status":"error","errorType":"bad_data","error":"parse error"})"}) {
    EXPECT_FALSE(parse_query_answer(body, warnings)) << body;
  }
}

// Decodes the query of "/api/v1/query?query=...&timeout=..." and returns it.
std::string query_of(std::string_view target) {
  const std::size_t begin = target.find("query=") + 6;
  const std::string_view encoded = target.substr(begin, target.find('&', begin) - begin);
  std::string query;
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] == '%') {
      query += static_cast<char>(std::stoi(std::string(encoded.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      query += encoded[i];
    }
  }
  return query;
}

// A server that answers queries by the metric that they name.
class Prometheus : public ::testing::Test {
 protected:
  Prometheus() : thread_([this] { loop_.run(); }) {
    auto server = http::Server::create(
        loop_, {.max_responses_bytes = 256U << 20U}, [this](http::Request& request, http::Reply reply) {
          const std::lock_guard lock(mutex_);
          queries_.push_back(query_of(request.target()));
          paths_.emplace_back(request.path());
          tokens_.emplace_back(request.headers().find("Authorization"));
          if (silent_) {
            waiting_.push_back(std::move(reply));
            return;
          }
          for (const auto& [metric, result] : results_) {
            if (queries_.back().find(metric) != std::string::npos) {
              reply.send({.status = status_, .body = answer_.value_or(vector(result))});
              return;
            }
          }
          reply.send({.status = status_, .body = answer_.value_or(vector(""))});
        });
    EXPECT_TRUE(server) << server.error().text();
    server_.emplace(*std::move(server));
  }
  ~Prometheus() override {
    loop_.call([this] { waiting_.clear(); });  // replies belong to the thread of the loop
    server_.reset();
    loop_.stop();
  }

  static std::string vector(const std::string& result) {
    return R"({"status":"success","data":{"resultType":"vector","result":[)" + result + "]}}";
  }
  // One element of a result, as the server prints it.
  static std::string sample(const std::string& labels, const std::string& value) {
    return "{\"metric\":{" + labels + "},\"value\":[1763434800.781,\"" + value + "\"]}";
  }
  static std::string dcgm(const std::string& pod, const std::string& value) {
    return sample(R"("namespace":"ml","pod":")" + pod +
                      R"(","UUID":"GPU-1","gpu":"0","Hostname":"a","instance":"10.0.0.1:9400")",
                  value);
  }

  PrometheusOptions options() { return {.url = "http://127.0.0.1:" + std::to_string(server_->port())}; }
  Result<Measurements> ask(const PrometheusOptions& options) {
    return ask_prometheus(options, Statistic::peak(), Statistic::mean());
  }

  std::mutex mutex_;
  std::map<std::string, std::string> results_;  // by metric
  std::optional<std::string> answer_;           // instead of the results
  int status_ = 200;
  bool silent_ = false;
  std::vector<std::string> queries_;
  std::vector<std::string> paths_;
  std::vector<std::string> tokens_;
  std::vector<http::Reply> waiting_;
  http::EventLoop loop_;
  std::optional<http::Server> server_;
  std::jthread thread_;
};

TEST_F(Prometheus, IsAskedForTheMetricsOfTheDcgmExporter) {
  results_["DCGM_FI_DEV_FB_USED"] = dcgm("p", "2048") + "," + dcgm("q", "-1") + "," + dcgm("r", "NaN");
  results_["DCGM_FI_DEV_GPU_UTIL"] = dcgm("p", "12.5") + "," + sample(R"("gpu":"1")", "3");
  const auto measured = ask(options());
  ASSERT_TRUE(measured) << measured.error().text();
  EXPECT_EQ(measured->pods.size(), 1U);
  EXPECT_EQ(measured->pods.at("ml/p").at("GPU-1").memory_mib, 2048);
  EXPECT_EQ(measured->pods.at("ml/p").at("GPU-1").utilization_percent, 12.5);
  EXPECT_THAT(measured->warnings, ElementsAre(HasSubstr("1 samples of Prometheus are ignored")));
  EXPECT_THAT(measured->source, HasSubstr("over 7d (DCGM exporter)"));
  const std::string by =
      "by (namespace, pod, exported_namespace, exported_pod, UUID, uuid, gpu, Hostname, instance)";
  EXPECT_THAT(queries_, ElementsAre("max " + by + " (max_over_time(DCGM_FI_DEV_FB_USED[7d]))",
                                    "max " + by + " (avg_over_time(DCGM_FI_DEV_GPU_UTIL[7d]))"));
}

// With honor_labels: false, `pod` is the pod of the exporter.
TEST_F(Prometheus, MayHaveRenamedTheLabels) {
  results_["DCGM_FI_DEV_FB_USED"] = sample(
      R"("namespace":"gpu-operator","pod":"dcgm-exporter-x","exported_namespace":"ml","exported_pod":"p","gpu":"3","Hostname":"a")",
      "700");
  const auto measured = ask(options());
  ASSERT_TRUE(measured) << measured.error().text();
  EXPECT_EQ(measured->pods.at("ml/p").at("a#3").memory_mib, 700);
}

TEST_F(Prometheus, IsAskedForTesserasMetricsIfThereIsNoDcgm) {
  results_["tessera_gpu_utilization_ratio"] = sample(R"("uuid":"GPU-1","gpu":"0")", "0.25");
  results_["tessera_container_gpu_memory_used_bytes"] =
      sample(R"("namespace":"ml","pod":"p","uuid":"GPU-1","gpu":"0")", "1073741824");
  const auto measured = ask(options());
  ASSERT_TRUE(measured) << measured.error().text();
  EXPECT_EQ(measured->pods.at("ml/p").at("GPU-1").memory_mib, 1024);
  EXPECT_EQ(measured->pods.at("ml/p").at("GPU-1").utilization_percent, 25);
  EXPECT_THAT(measured->source, HasSubstr("Tessera's agents"));
  EXPECT_EQ(queries_.size(), 4U);
  EXPECT_THAT(queries_.back(), testing::StartsWith("sum by "));
}

// An agent that was restarted has several series for one GPU, in any order.
TEST_F(Prometheus, UsesTheBusiestSeriesOfAGpu) {
  results_["tessera_container_gpu_memory_used_bytes"] =
      sample(R"("namespace":"ml","pod":"p","uuid":"GPU-1","gpu":"0")", "1073741824");
  const auto series = [&](const char* instance, const char* value) {
    return sample(fmt::format(R"("uuid":"GPU-1","gpu":"0","instance":"{}")", instance), value);
  };
  for (const auto& both :
       {series("a", "0.9") + "," + series("b", "0"), series("a", "0") + "," + series("b", "0.9")}) {
    results_["tessera_gpu_utilization_ratio"] = both;
    const auto measured = ask(options());
    ASSERT_TRUE(measured) << measured.error().text();
    EXPECT_EQ(measured->pods.at("ml/p").at("GPU-1").utilization_percent, 90);
  }
}

TEST_F(Prometheus, GetsTheTokenTheSelectorAndThePathOfTheUrl) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_file(directory / "token", "secret\n"));
  PrometheusOptions with = options();
  with.url += "/prometheus";
  with.token_file = directory / "token";
  with.selector = "cluster=\"prod\"";
  with.window = "1d12h";
  with.metrics = "dcgm";
  const auto measured = ask_prometheus(with, *Statistic::parse("p99"), Statistic::peak());
  ASSERT_TRUE(measured) << measured.error().text();
  EXPECT_THAT(queries_[0],
              HasSubstr("(quantile_over_time(0.99, DCGM_FI_DEV_FB_USED{cluster=\"prod\"}[1d12h]))"));
  EXPECT_THAT(queries_[1], HasSubstr("(max_over_time(DCGM_FI_DEV_GPU_UTIL{cluster=\"prod\"}[1d12h]))"));
  EXPECT_EQ(paths_[0], "/prometheus/api/v1/query");
  EXPECT_EQ(tokens_[0], "Bearer secret");
  EXPECT_THAT(measured->warnings, ElementsAre(HasSubstr("no GPU measurements of pods")));
}

TEST_F(Prometheus, FailuresSayWhatToDo) {
  const auto message = [&](int status, const std::string& body) {
    const std::lock_guard lock(mutex_);
    status_ = status;
    answer_ = body;
  };
  message(200, "<html>a login page</html>");
  EXPECT_THAT(ask(options()).error().text(), HasSubstr("the answer is not that of a Prometheus server"));
  message(400, R"({"status":"error","errorType":"bad_data","error":"invalid parameter \"query\""})");
  EXPECT_THAT(ask(options()).error().text(),
              HasSubstr(R"(responded 400: the server reports: "invalid parameter)"));
  message(401, "who are you?");
  EXPECT_THAT(ask(options()).error().text(),
              HasSubstr("responded 401; pass a token with --prometheus-token-file"));
  message(404, "not here");
  EXPECT_THAT(ask(options()).error().text(), HasSubstr("/api/v1/query"));
  message(200, std::string((64U << 20U) + 1, ' '));
  EXPECT_THAT(ask(options()).error().text(), HasSubstr("--prometheus-selector"));
  PrometheusOptions nowhere = options();
  nowhere.url = "http://127.0.0.1:1";
  EXPECT_THAT(ask(nowhere).error().text(),
              HasSubstr("--prometheus http://127.0.0.1:1: query of DCGM_FI_DEV_FB_USED: "));
  nowhere.url = "ftp://x";
  EXPECT_FALSE(ask(nowhere));
  nowhere.url = options().url;
  nowhere.token_file = "/nowhere/token";
  EXPECT_THAT(ask(nowhere).error().text(), HasSubstr("/nowhere/token"));
}

TEST_F(Prometheus, MayNotHoldTheCommandForever) {
  silent_ = true;
  PrometheusOptions impatient = options();
  impatient.timeout = std::chrono::milliseconds(200);
  const auto measured = ask(impatient);
  ASSERT_FALSE(measured);
  EXPECT_THAT(measured.error().text(), HasSubstr("query of DCGM_FI_DEV_FB_USED"));
}

// The whole way: two pods of 2048 MiB that hold two T4 need one (see savings_test.cc).
TEST_F(Prometheus, AnswersFeedThePlan) {
  results_["DCGM_FI_DEV_FB_USED"] = dcgm("p", "2048") + "," + dcgm("q", "2048");
  results_["DCGM_FI_DEV_GPU_UTIL"] = dcgm("p", "5") + "," + dcgm("q", "5");
  GpuCluster cluster;
  cluster.node("a", {.gpus = 2});
  cluster.pod("ml/p", "a", {});
  cluster.pod("ml/q", "a", {});
  SavingsOptions command;
  command.cluster.file = cluster.write();
  command.prometheus = options();
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(run_savings(command, out, err, {}), 0) << err.str();
  EXPECT_THAT(out.str(), testing::StartsWith("The pods on your 2 GPUs fit on 1.\n"));
  EXPECT_THAT(out.str(), HasSubstr("A pod younger than 24 h stays whole."));
}

// Runs the command for a pod ml/p that holds a GPU, with this server.
class SavingsOfPrometheus : public Prometheus {
 protected:
  std::string report(const std::string& output) {
    GpuCluster cluster;
    cluster.node("a", {.gpus = 1});
    cluster.pod("ml/p", "a", {});
    SavingsOptions command;
    command.cluster.file = cluster.write();
    command.prometheus = options();
    command.output = output;
    std::ostringstream out;
    std::ostringstream err;
    EXPECT_EQ(run_savings(command, out, err, {}), 0) << err.str();
    return out.str();
  }
};

TEST_F(SavingsOfPrometheus, SayThatNothingWasMeasured) {
  const std::string markdown = report("md");
  EXPECT_THAT(markdown, HasSubstr("cannot be said: 0 of 1 single-GPU pods have measurements."));
  EXPECT_THAT(markdown, HasSubstr("Prometheus has no GPU measurements of pods"));
}

TEST_F(SavingsOfPrometheus, SayThatOtherPodsWereMeasured) {
  results_["DCGM_FI_DEV_FB_USED"] = dcgm("q", "2048");
  EXPECT_THAT(report("text"), HasSubstr("none of the pods that were measured is in this cluster: ml/q"));
}

}  // namespace
}  // namespace tessera::cli
