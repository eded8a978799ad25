#include "http/event_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace tessera::http {
namespace {

using namespace std::chrono_literals;

TEST(EventLoop, RunsPostedWorkInOrder) {
  EventLoop loop;
  std::vector<int> order;
  loop.post([&] { order.push_back(1); });
  loop.post([&] {
    order.push_back(2);
    loop.post([&] { order.push_back(3); });
  });
  EXPECT_TRUE(loop.run_until([&] { return order.size() == 3; }, 5s));
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST(EventLoop, ReturnsFalseOnATimeout) {
  EventLoop loop;
  EXPECT_FALSE(loop.run_until([] { return false; }, 5ms));
}

TEST(EventLoop, ReturnsAtOnceIfItWasStoppedBefore) {
  EventLoop loop;
  loop.stop();
  loop.run();
  bool ran = false;
  loop.post([&] { ran = true; });
  EXPECT_TRUE(loop.run_until([&] { return ran; }, 5s));  // the loop can be used again
}

TEST(EventLoop, TryRunReturnsNothingWhileAnotherThreadRunsTheLoop) {
  EventLoop loop;
  bool posted = false;
  loop.post([&] { posted = true; });
  EXPECT_EQ(loop.try_run_until([&] { return posted; }, 10s), true);
  EXPECT_EQ(loop.try_run_until([] { return false; }, 1ms), false);
  std::optional<bool> other_thread = true;
  loop.post([&] {
    std::thread([&] { other_thread = loop.try_run_until([] { return true; }, 10s); }).join();
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(other_thread, std::nullopt);
}

TEST(EventLoop, KnowsItsThread) {
  EventLoop loop;
  EXPECT_FALSE(loop.here());
  EXPECT_FALSE(loop.running());
  bool inside = false;
  loop.post([&] { inside = loop.here() && loop.running(); });
  loop.run_until([&] { return inside; }, 5s);
  EXPECT_TRUE(inside);
  EXPECT_FALSE(loop.here());
}

TEST(EventLoop, CallsOnTheLoopAndWaitsForIt) {
  EventLoop loop;
  std::jthread thread([&] { loop.run(); });
  std::thread::id where;
  std::promise<void> started;
  loop.post([&] { started.set_value(); });
  started.get_future().get();
  loop.call([&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, thread.get_id());
  loop.stop();
}

TEST(EventLoop, CallsOnTheCallingThreadIfNoThreadRunsTheLoop) {
  EventLoop loop;
  bool here = false;
  loop.call([&] { here = loop.here(); });
  EXPECT_TRUE(here);
  EXPECT_FALSE(loop.running());
}

TEST(EventLoop, FinishesACallWhileTheLoopStops) {
  for (int round = 0; round < 200; ++round) {
    EventLoop loop;
    std::jthread thread([&] { loop.run(); });
    bool called = false;
    std::jthread stopper([&] { loop.stop(); });
    loop.call([&] { called = true; });
    EXPECT_TRUE(called);
  }
}

TEST(EventLoop, AcceptsTasksFromManyThreads) {
  EventLoop loop;
  int sum = 0;  // used only on the loop's thread
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 1000; ++j) {
          loop.post([&] { ++sum; });
        }
      });
    }
    EXPECT_TRUE(loop.run_until([&] { return sum == 4000; }, 10s));
  }
}

TEST(Timer, FiresAfterItsDelay) {
  EventLoop loop;
  bool rang = false;
  const auto start = std::chrono::steady_clock::now();
  Timer timer = loop.after(20ms, [&] { rang = true; });
  EXPECT_TRUE(timer.pending());
  EXPECT_TRUE(loop.run_until([&] { return rang; }, 5s));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 20ms);
  EXPECT_FALSE(timer.pending());
}

TEST(Timer, DoesNotFireWhenCancelledOrDestroyed) {
  EventLoop loop;
  bool rang = false;
  bool last = false;
  Timer cancelled = loop.after(1ms, [&] { rang = true; });
  cancelled.cancel();
  {
    const Timer destroyed = loop.after(1ms, [&] { rang = true; });
  }
  Timer replaced = loop.after(1ms, [&] { rang = true; });
  replaced = loop.after(10ms, [&] { last = true; });
  EXPECT_TRUE(loop.run_until([&] { return last; }, 5s));
  EXPECT_FALSE(rang);
}

TEST(Timer, MayBeReplacedByItsOwnTask) {
  EventLoop loop;
  int rings = 0;
  Timer timer;
  std::function<void()> again = [&] {
    if (++rings < 3) {
      timer = loop.after(1ms, again);
    }
  };
  timer = loop.after(1ms, again);
  EXPECT_TRUE(loop.run_until([&] { return rings == 3; }, 5s));
}

TEST(Timer, CanBeSetAndCancelledFromAnotherThread) {
  EventLoop loop;
  std::jthread thread([&] { loop.run(); });
  for (int i = 0; i < 200; ++i) {
    Timer timer = loop.after(std::chrono::microseconds(i), [] {});
    timer.cancel();
  }
  std::promise<void> rang;
  const Timer timer = loop.after(1ms, [&] { rang.set_value(); });
  EXPECT_EQ(rang.get_future().wait_for(5s), std::future_status::ready);
  loop.stop();
}

}  // namespace
}  // namespace tessera::http
