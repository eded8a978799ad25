// What all commands print when they cannot do their work: the output cannot be written, the cluster
// cannot be reached, a name does not exist, or Tessera is not installed.
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

}  // namespace
}  // namespace tessera::cli
