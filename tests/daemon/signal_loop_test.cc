#include "daemon/signal_loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace tessera::daemon {
namespace {

TEST(SignalLoop, ReloadsOnHangupAndStopsOnTerm) {
  Result<SignalLoop> signals = SignalLoop::create(SignalLoop::Reload::kOnHangup);
  ASSERT_TRUE(signals) << signals.error().text();
  http::EventLoop loop;
  int reloads = 0;
  int stops = 0;
  signals->run(loop, {.start = [] { ::kill(::getpid(), SIGHUP); },
                      .stop =
                          [&] {
                            ++stops;
                            loop.stop();
                          },
                      .reload =
                          [&] {
                            ++reloads;
                            ::kill(::getpid(), SIGTERM);
                          }});
  EXPECT_EQ(reloads, 1);
  EXPECT_EQ(stops, 1);
}

}  // namespace
}  // namespace tessera::daemon
