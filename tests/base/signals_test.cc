#include "base/signals.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

namespace tessera {
namespace {

bool readable(int fd) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, 5000) == 1;
}

TEST(SignalWatch, ReadsASignalFromItsDescriptor) {
  SignalWatch signals = SignalWatch::create({SIGHUP, SIGUSR1}).value();
  EXPECT_EQ(signals.read(), std::nullopt);
  ASSERT_EQ(::pthread_kill(::pthread_self(), SIGUSR1), 0);
  ASSERT_TRUE(readable(signals.fd()));
  EXPECT_EQ(signals.read(), SIGUSR1);
  EXPECT_EQ(signals.read(), std::nullopt);
}

TEST(SignalWatch, BlocksTheSignalInThreadsStartedLater) {
  SignalWatch signals = SignalWatch::create({SIGUSR1}).value();
  std::jthread([] { ::pthread_kill(::pthread_self(), SIGUSR1); }).join();
  SUCCEED();
}

TEST(SignalWatch, DropsUnreadSignalsWhenDestroyed) {
  {
    const SignalWatch signals = SignalWatch::create({SIGUSR1}).value();
    ::pthread_kill(::pthread_self(), SIGUSR1);
  }
  sigset_t mask;
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &mask), 0);
  EXPECT_EQ(sigismember(&mask, SIGUSR1), 0);
}

TEST(SignalWatch, RejectsAnInvalidSignalNumber) {
  EXPECT_FALSE(SignalWatch::create({9999}));
}

}  // namespace
}  // namespace tessera
