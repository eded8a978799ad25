#include "gpu/call_thread.h"

#include <gmock/gmock.h>

#include <atomic>
#include <latch>
#include <thread>

namespace tessera::gpu {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kPatience = 20s;

TEST(CallThread, RunsCallsOnItsOwnThread) {
  CallThread thread(std::make_shared<CallMonitor>(), [] { return 1h; });
  const auto first =
      thread.call<std::thread::id>("who", kPatience, [] { return std::this_thread::get_id(); });
  const auto second =
      thread.call<std::thread::id>("who", kPatience, [] { return std::this_thread::get_id(); });
  EXPECT_NE(first.value(), std::this_thread::get_id());
  EXPECT_EQ(first.value(), second.value());
}

TEST(CallThread, ReturnsAtTheDeadlineAndNamesTheHungCall) {
  auto monitor = std::make_shared<CallMonitor>();
  auto release = std::make_shared<std::latch>(1);
  CallThread thread(monitor, [] { return 1h; });
  const auto answer = thread.call<int>("count GPUs", 30ms, [monitor, release]() -> Result<int> {
    monitor->begin("nvmlDeviceGetCount");
    release->wait();
    monitor->end(false);
    return 1;
  });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::kTimeout);
  EXPECT_THAT(answer.error().text(),
              HasSubstr("count GPUs: driver call nvmlDeviceGetCount has not answered for 0."));

  // A second call waits in the queue. Its work is skipped, because its deadline passes first.
  auto ran = std::make_shared<std::atomic<bool>>(false);
  EXPECT_FALSE(thread.call<int>("later", 10ms, [ran]() -> Result<int> {
    *ran = true;
    return 2;
  }));
  release->count_down();
  EXPECT_EQ(thread.call<int>("again", kPatience, []() -> Result<int> { return 3; }).value(), 3);
  EXPECT_FALSE(*ran);
}

TEST(CallThread, RunsIdleAgainAfterEachJob) {
  auto rounds = std::make_shared<std::atomic<int>>(0);
  CallThread thread(std::make_shared<CallMonitor>(), [rounds] {
    ++*rounds;
    return 1h;
  });
  const auto before =
      thread.call<int>("sync", kPatience, [rounds]() -> Result<int> { return rounds->load(); });
  ASSERT_TRUE(before);
  thread.post([] {});
  const auto begun = std::chrono::steady_clock::now();
  while (*rounds <= *before && std::chrono::steady_clock::now() - begun < kPatience) {
    std::this_thread::yield();
  }
  EXPECT_GT(*rounds, *before);
}

TEST(CallThread, CanBeDestroyedWhileACallHangs) {
  auto release = std::make_shared<std::latch>(1);
  auto gone = std::make_shared<std::latch>(1);
  {
    CallThread thread(std::make_shared<CallMonitor>(), [] { return 1h; });
    EXPECT_FALSE(thread.call<int>("hang", 10ms, [release, gone]() -> Result<int> {
      release->wait();
      gone->count_down();
      return 1;
    }));
  }
  release->count_down();
  gone->wait();
}

}  // namespace
}  // namespace tessera::gpu
