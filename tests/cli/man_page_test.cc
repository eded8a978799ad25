#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

TEST(ManPage, NamesEveryCommandAndItsOptions) {
  const Outcome page = run_in_pipe("tessera", {"man"});
  EXPECT_EQ(page.code, 0);
  EXPECT_EQ(page.out.substr(0, 13), ".TH TESSERA 1");
  for (const char* command : {"check", "completion", "help", "inspect gpushare", "inspect gpu", "inventory",
                              "savings", "simulate", "top node", "top pod", "topo", "version", "why"}) {
    EXPECT_THAT(page.out, HasSubstr(".SS tessera " + std::string(command) + "\n"));
  }
  EXPECT_THAT(page.out, HasSubstr("\\-o, \\-\\-output"));
  EXPECT_THAT(page.out, HasSubstr("Examples:"));
}

TEST(ManPage, HasNoUnintendedTroffRequests) {
  const Outcome page = run_in_pipe("tessera", {"man"});
  std::size_t begin = 0;
  while (begin < page.out.size()) {
    const std::size_t end = page.out.find('\n', begin);
    const std::string line = page.out.substr(begin, end - begin);
    if (line.starts_with('.')) {
      EXPECT_THAT(line.substr(0, 4),
                  ::testing::AnyOf(::testing::StartsWith(".TH"), ::testing::StartsWith(".SH"),
                                   ::testing::StartsWith(".SS"), ::testing::StartsWith(".TP"),
                                   ::testing::StartsWith(".PP"), ::testing::StartsWith(".B "),
                                   ::testing::StartsWith(".I "), ::testing::StartsWith(".br"),
                                   ::testing::StartsWith(".nf"), ::testing::StartsWith(".fi")))
          << line;
    }
    begin = end + 1;
  }
}

}  // namespace
}  // namespace tessera::cli
