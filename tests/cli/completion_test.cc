#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "../base/temporary_directory.h"
#include "../kube/fake_api_server.h"
#include "base/file.h"
#include "cli/cluster/find_names.h"
#include "http/event_loop.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string out;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) {
    out += static_cast<char>(c);
  }
  return out;
}

// Returns what bash offers for the last of these words. "tessera" is the program under test.
std::string completed(const std::string& words, const std::string& environment = "") {
  const std::string program = program_path("tessera");
  return output_of(environment + " PATH=" + program.substr(0, program.rfind('/')) +
                   ":$PATH bash -c 'source <(tessera completion bash); COMP_WORDS=(" + words +
                   "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _tessera; echo -n \"${COMPREPLY[*]}\"' 2>&1");
}

// Returns what zsh offers. zsh's own function compadd works only while a user edits a line, so a
// function of that name prints the words here.
std::string completed_in_zsh(const std::string& words) {
  const TemporaryDirectory home;
  const std::string program = program_path("tessera");
  return output_of(
      "ZDOTDIR=" + home.path() + " PATH=" + program.substr(0, program.rfind('/')) +
      ":$PATH zsh -f -c 'source <(tessera completion zsh); words=(" + words +
      "); CURRENT=${#words}; compadd() { print -n -- \"${(P)2}\" }; _files() { print -n files }; "
      "_tessera' 2>&1");
}

TEST(Completion, OffersCommandsOptionsAndTheirValues) {
  EXPECT_EQ(completed("tessera insp"), "inspect");
  EXPECT_EQ(completed("tessera inspect gpu"), "gpushare gpu");
  EXPECT_EQ(completed("tessera why --out"), "--output");
  EXPECT_EQ(completed("tessera inspect gpu --sort-by u"), "used");
  EXPECT_EQ(completed("tessera inspect gpushare -o \"\""), "text wide json yaml");
  EXPECT_EQ(completed("tessera inspect gpushare --output = j"), "json") << "bash splits words at =";
  EXPECT_EQ(completed("tessera topo --mach"), "--machine");
  EXPECT_EQ(completed("tessera completion \"\""), "bash zsh fish");
  EXPECT_EQ(completed("tessera top nodes --sort-by n"), "name") << "nodes is an alias of node";
  EXPECT_EQ(completed("tessera nothing-like-it"), "");
  EXPECT_EQ(completed("tessera man \"\""), "--help -h") << "a command without arguments has only options";
  EXPECT_THAT(completed("tessera \"\""),
              AllOf(HasSubstr("check completion help"), Not(HasSubstr("__complete"))));
}

TEST(Completion, LeavesFilesToTheShell) {
  EXPECT_EQ(completed("tessera why --file \"\""), "");
  EXPECT_EQ(completed("tessera topo --kubeconfig /etc/ku"), "");
}

TEST(Completion, OffersTheSameInZsh) {
  if (output_of("command -v zsh").empty()) {
    GTEST_SKIP() << "zsh is not installed";
  }
  EXPECT_EQ(completed_in_zsh("tessera insp"), "inspect");
  EXPECT_EQ(completed_in_zsh("tessera inspect gpu"), "gpushare gpu");
  EXPECT_EQ(completed_in_zsh("tessera inspect gpu --sort-by u"), "used");
  EXPECT_EQ(completed_in_zsh("tessera inspect gpu --sort-by=u"), "--sort-by=used");
  EXPECT_EQ(completed_in_zsh("tessera why --file \"\""), "files");
}

TEST(Completion, OffersTheSameInFish) {
  if (output_of("command -v fish").empty()) {
    GTEST_SKIP() << "fish is not installed";
  }
  const std::string program = program_path("tessera");
  const auto in_fish = [&](const std::string& line) {
    return output_of("PATH=" + program.substr(0, program.rfind('/')) +
                     ":$PATH fish --no-config -c 'tessera completion fish | source; complete -C \"" + line +
                     "\"' 2>&1");
  };
  EXPECT_EQ(in_fish("tessera insp"), "inspect\n");
  EXPECT_EQ(in_fish("tessera inspect gpu --sort-by u"), "used\n");
}

TEST(Completion, SupportsThreeShells) {
  EXPECT_EQ(run_in_pipe("tessera", {"completion", "zsh"}).out.substr(0, 17), "#compdef tessera ")
      << "compinit only registers files that start with #compdef";
  EXPECT_EQ(run_in_pipe("tessera", {"completion", "csh"}).code, 2);
}

TEST(Completion, OffersNamesOfSavedFiles) {
  SavedCluster cluster;
  fill_tessera_cluster(cluster);
  const std::string file = " --file " + cluster.write() + " ";
  EXPECT_EQ(completed("tessera check" + file + "gpu-"), "gpu-a gpu-b");
  EXPECT_EQ(completed("tessera why -n web" + file + "\"\""), "big split waits");
  EXPECT_EQ(completed("tessera why" + file + "-n \"\""), "ml web");
  EXPECT_EQ(completed("tessera why" + file + "web/sp"), "web/split");
  EXPECT_EQ(completed("tessera why" + file + "-nml pod/t"), "pod/train");
  EXPECT_EQ(completed("tessera top pod -A" + file + "s"), "split");
  EXPECT_EQ(completed("tessera check" + file + "gpu-a gpu-"), "gpu-a gpu-b") << "check takes several nodes";
  EXPECT_EQ(completed("tessera topo" + file + "gpu-a g"), "") << "topo takes one node";
}

// An API server whose answers are tables, as those of a real one for this request.
class CompletionOfACluster : public ::testing::Test {
 protected:
  CompletionOfACluster() : server_(loop_) {
    server_.intercept = [this](const kube::FakeApiServer::Seen& seen) { return answer(seen); };
    (void)write_file(
        directory_ / "config",
        fmt::format("apiVersion: v1\nkind: Config\ncurrent-context: test\n"
                    "clusters: [{{name: c, cluster: {{server: \"{}\"}}}}]\n"
                    "users: [{{name: u, user: {{}}}}]\n"
                    "contexts:\n- {{name: test, context: {{cluster: c, user: u, namespace: ml}}}}\n"
                    "- {{name: web, context: {{cluster: c, user: u, namespace: web}}}}\n"
                    "- {{name: \"$(touch {})\", context: {{cluster: c, user: u}}}}\n",
                    server_.url(), directory_ / "touched"));
    thread_ = std::jthread([this] { loop_.run(); });
  }
  ~CompletionOfACluster() override { loop_.stop(); }

  std::optional<http::Response> answer(const kube::FakeApiServer::Seen& seen) {
    if (hang_) {
      std::this_thread::sleep_for(std::chrono::seconds(4));
    }
    if (refuse_) {
      return http::Response{.status = 403, .body = kube::status_json(403, "Forbidden", "no")};
    }
    const auto table = [](const std::string& rows, const std::string& next) {
      return http::Response{.body =
                                R"({"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"continue":")" +
                                next + R"("},"columnDefinitions":[{"name":"Name"}],"rows":[)" + rows + "]}"};
    };
    if (seen.target.starts_with("/api/v1/nodes")) {
      return seen.target.find("continue=page2") == std::string::npos
                 ? table(R"({"cells":["gpu-a","Ready"]},{"cells":["$(touch )" + (directory_ / "touched") +
                             ")\"]}",
                         "page2")
                 : table(R"({"cells":["gpu-b","Ready"]},{"cells":["*"]},{"cells":[]},{"cells":[7]},{})", "");
    }
    if (seen.target.starts_with("/api/v1/namespaces?")) {
      return table(R"({"cells":["ml"]},{"cells":["web"]})", "");
    }
    if (seen.target.starts_with("/api/v1/namespaces/ml/pods?")) {
      return table(R"({"cells":["train-1"]},{"cells":["infer"]})", "");
    }
    if (seen.target.starts_with("/api/v1/namespaces/web/pods?")) {
      return http::Response{
          .body = R"({"kind":"PodList","metadata":{},"items":[{"metadata":{"name":"split"}}]})"};
    }
    return table(R"({"cells":["all"]})", "");
  }

  std::string offers(const std::string& words) {
    return completed(words, "KUBECONFIG=" + (directory_ / "config"));
  }

  http::EventLoop loop_;
  kube::FakeApiServer server_;
  TemporaryDirectory directory_;
  std::atomic<bool> hang_ = false;
  std::atomic<bool> refuse_ = false;
  std::jthread thread_;
};

TEST_F(CompletionOfACluster, OffersNodesPodsAndNamespaces) {
  EXPECT_EQ(offers("tessera topo \"\""), "gpu-a gpu-b");
  EXPECT_EQ(offers("tessera top node gpu-b"), "gpu-b");
  EXPECT_EQ(offers("tessera why t"), "train-1") << "in the namespace of the context";
  EXPECT_EQ(offers("tessera why --namespace w"), "web");
  EXPECT_EQ(offers("tessera top pod -A \"\""), "all");
}

TEST_F(CompletionOfACluster, HonoursTheFlagsOnTheLine) {
  EXPECT_EQ(offers("tessera why -n web \"\""), "split");
  EXPECT_EQ(offers("tessera why --context web \"\""), "split");
  EXPECT_EQ(offers("tessera why --context = web \"\""), "split") << "as bash splits --context=web";
  EXPECT_EQ(offers("tessera why web/\"\""), "web/split");
  EXPECT_EQ(offers("tessera why --context \"\""), "test web");
  EXPECT_EQ(completed("tessera why --kubeconfig " + (directory_ / "config") + " \"\"", "KUBECONFIG=/nowhere"),
            "train-1 infer");
}

TEST_F(CompletionOfACluster, RunsNothingThatANameContains) {
  EXPECT_EQ(offers("tessera topo \"\""), "gpu-a gpu-b") << "not \"$(touch ...)\" and \"*\"";
  EXPECT_EQ(offers("tessera topo n --context \"\""), "test web");
  EXPECT_FALSE(read_file(directory_ / "touched"));
  EXPECT_FALSE(is_safe_name("a;b"));
  EXPECT_FALSE(is_safe_name("--help"));
  EXPECT_TRUE(is_safe_name("arn:aws:eks:eu-west-1:1:cluster/a_b"));
}

TEST_F(CompletionOfACluster, GivesUpSilently) {
  refuse_ = true;
  EXPECT_EQ(offers("tessera why tr"), "");
  refuse_ = false;
  hang_ = true;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(offers("tessera why tr"), "");
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, std::chrono::milliseconds(1900)) << "it must have waited for the server";
  EXPECT_LT(took, std::chrono::milliseconds(3800));
}

}  // namespace
}  // namespace tessera::cli
