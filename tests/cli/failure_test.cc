// Messages of commands that cannot do their work: the output cannot be written, the cluster cannot be
// reached, a name does not exist, or Tessera is not installed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "base/fd.h"
#include "cli/diagnose/check.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(WriteError, IsReportedByEveryCommand) {
  SavedCluster cluster;
  fill_tessera_cluster(cluster);
  const std::string file = cluster.write();
  const std::vector<std::vector<std::string>> lines = {
      {"topo", "--machine", "dgx1v"},
      {"why", "-A", "-o", "json", "--file", file},
      {"check", "--file", file},
      {"top", "node", "--file", file},
      {"inspect", "--file", file},
      {"--help"},
      {"version"},
      {"man"},
  };
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  for (const auto& line : lines) {
    const Outcome outcome = run_into(full.get(), "tessera", line);
    EXPECT_EQ(outcome.code, 1) << line[0];
    EXPECT_EQ(outcome.err, "tessera: cannot write the output: No space left on device\n") << line[0];
  }
  EXPECT_EQ(run_into(full.get(), "kubectl-inspect-gpushare", {"--file", file}).code, 1);
}

TEST(WriteError, IsSilentIfTheReaderHasClosedThePipe) {
  SavedCluster cluster;
  fill_tessera_cluster(cluster);
  Pipe pipe = *Pipe::create();
  pipe.read_end.reset();
  std::signal(SIGPIPE, SIG_IGN);  // the program inherits it, so that writing returns EPIPE
  const Outcome outcome = run_into(pipe.write_end.get(), "tessera", {"why", "-A", "--file", cluster.write()});
  std::signal(SIGPIPE, SIG_DFL);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
}

// A cluster whose GPUs NVIDIA's plugin serves.
struct OtherGpus : SavedCluster {
  OtherGpus() {
    plain_node("gpu-a", {.other_capacity = {{"nvidia.com/gpu", "8"}}});
    plain_node("gpu-b", {.other_capacity = {{"nvidia.com/gpu", "8"}}});
    plain_node("cpu", {.other_capacity = {{"nvidia.com/gpu", "0"}}});
  }
};

constexpr const char* kInstall =
    "2 nodes offer nvidia.com/gpu, but none has Tessera's inventory; install the agent, or run \"tessera "
    "savings\"\n";

TEST(NotInstalled, IsSaidByTheCommandsThatWouldShowNothing) {
  OtherGpus cluster;
  const std::string file = cluster.write();
  EXPECT_EQ(run_in_pipe("tessera", {"top", "node", "--file", file}).out, kInstall);
  EXPECT_EQ(run_in_pipe("tessera", {"top", "pod", "-A", "--file", file}).out,
            std::string("No pod requests GPUs.\n") + kInstall);
  for (const std::vector<std::string>& line : {std::vector<std::string>{"inspect"},
                                               {"inspect", "-d"},
                                               {"inspect", "gpu"},
                                               {"inspect", "-o", "wide"}}) {
    std::vector<std::string> words = line;
    words.insert(words.end(), {"--file", file});
    EXPECT_THAT(run_in_pipe("tessera", words).out, HasSubstr(kInstall)) << testing::PrintToString(line);
  }
  EXPECT_EQ(
      run_in_pipe("tessera", {"top", "node", "gpu-a", "--file", file}).out,
      "1 node offers nvidia.com/gpu, but lacks Tessera's inventory; install the agent, or run \"tessera "
      "savings\"\n");
}

TEST(NotInstalled, IsAnErrorOfCheck) {
  OtherGpus cluster;
  const Outcome outcome = run_in_pipe("tessera", {"check", "--file", cluster.write()});
  EXPECT_EQ(outcome.code, kFoundProblems);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr(std::string("ERROR  no_inventory  ") + kInstall),
                                 Not(HasSubstr("No problems found"))));
}

TEST(NotInstalled, DoesNotChangeTheOutputOfThePlugins) {
  OtherGpus cluster;
  const std::string file = cluster.write();
  for (const char* plugin : {"kubectl-inspect-gpushare", "kubectl-inspect-gpu"}) {
    EXPECT_THAT(run_in_pipe(plugin, {"--file", file}).out, Not(HasSubstr("nvidia.com/gpu"))) << plugin;
  }
  EXPECT_THAT(run_in_pipe("tessera", {"inspect", "-o", "json", "--file", file}).out,
              Not(HasSubstr("install the agent")));
}

TEST(NotInstalled, IsNotSaidWhereTesseraOrAnOriginalPluginRuns) {
  OtherGpus tessera;
  tessera.node("gpu-c", inventory_of("c", 1, 16384));
  OtherGpus original;
  original.plain_node("gpu-c", {.units = 16, .gpus = 1});
  for (const SavedCluster* cluster :
       {static_cast<SavedCluster*>(&tessera), static_cast<SavedCluster*>(&original)}) {
    EXPECT_THAT(run_in_pipe("tessera", {"check", "--file", cluster->write()}).out,
                Not(HasSubstr("no_inventory")));
  }
  SavedCluster none;
  none.plain_node("cpu", {});
  EXPECT_EQ(run_in_pipe("tessera", {"top", "node", "--file", none.write()}).out, "No node has GPUs.\n");
}

// Writes a kubeconfig with one context `a` and this server.
std::string kubeconfig(const TemporaryDirectory& directory, const std::string& server) {
  const std::string path = directory.path() + "/kc";
  std::ofstream(path) << "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
                         "clusters: [{name: c, cluster: {server: \"" +
                             server +
                             "\"}}]\n"
                             "contexts: [{name: a, context: {cluster: c}}]\n";
  return path;
}

TEST(Unreachable, NamesTheClusterAndWhatToTry) {
  TemporaryDirectory directory;
  const std::string path = kubeconfig(directory, "http://127.0.0.1:1");
  const std::string text = "tessera: cannot reach the cluster at http://127.0.0.1:1 (context a of " + path +
                           "): Connection refused; try \"kubectl cluster-info";
  const std::vector<std::vector<std::string>> lines = {{"check"}, {"why", "-A", "--watch"}};
  for (const std::vector<std::string>& line : lines) {
    std::vector<std::string> words = line;
    words.insert(words.end(), {"--kubeconfig", path});
    const Outcome given = run_in_pipe("tessera", words);
    EXPECT_EQ(given.code, 1) << line[0];
    EXPECT_EQ(given.err, text + " --kubeconfig " + path + "\"\n");
  }
  EXPECT_EQ(run_in_pipe("tessera", {"top", "node"}, {{"KUBECONFIG", path}}).err, text + "\"\n");
}

TEST(Kubeconfig, ThatTheUserNamedIsNamedInTheError) {
  TemporaryDirectory directory;
  const auto error = [](const std::string& path) {
    return run_in_pipe("tessera", {"check", "--kubeconfig", path}).err;
  };
  EXPECT_EQ(error("/nonexist"), "tessera: --kubeconfig: /nonexist does not exist\n");
  EXPECT_THAT(error(directory.path()), AllOf(testing::StartsWith("tessera: --kubeconfig: "),
                                             HasSubstr(directory.path() + ": Is a directory")));
}

TEST(NoSuchNode, SaysWhichNodesExist) {
  SavedCluster cluster;
  for (int i = 10; i < 20; ++i) {
    cluster.node("worker-" + std::to_string(i), inventory_of(std::to_string(i), 1, 16384));
  }
  const std::string file = cluster.write();
  const std::string listed =
      "does not exist; the nodes are worker-10, worker-11, worker-12, worker-13, worker-14, worker-15, "
      "worker-16, worker-17 and 2 more\n";
  const std::vector<std::vector<std::string>> lines = {
      {"topo", "nonode"}, {"top", "node", "nonode"}, {"inspect", "nonode"}, {"inspect", "gpu", "nonode"}};
  for (const std::vector<std::string>& line : lines) {
    std::vector<std::string> words = line;
    words.insert(words.end(), {"--file", file});
    const Outcome outcome = run_in_pipe("tessera", words);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.err, "tessera: node \"nonode\" " + listed) << testing::PrintToString(line);
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(run_in_pipe("tessera", {"topo", "worker-1O", "--file", file}).err,
            "tessera: node \"worker-1O\" does not exist; did you mean worker-10?\n");
}

TEST(NoSuchNode, HasTheMessageOfTheOriginalInThePlugins) {
  SavedCluster cluster;
  cluster.node("gpu-a", inventory_of("a", 1, 16384));
  const Outcome outcome = run_in_pipe("kubectl-inspect-gpushare", {"nonode", "--file", cluster.write()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "Failed due to nodes \"nonode\" not found");
}

TEST(NoSuchMachine, SuggestsTheNearestOne) {
  EXPECT_THAT(
      run_in_pipe("tessera", {"topo", "--machine", "dgx1w"}).err,
      HasSubstr("tessera: there is no machine \"dgx1w\"; did you mean dgx1v? The built-in machines are "));
}

}  // namespace
}  // namespace tessera::cli
