// Compares the reflector's view with a fresh list, after thousands of random changes and broken
// connections. See real_api_server.h for how the API server is started.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "cutting_relay.h"
#include "http/url.h"
#include "real_api_server.h"

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;

// Creates, changes or deletes a random node or pod. The names are from a small set, so that they
// are used repeatedly.
Request random_change(std::mt19937_64& random) {
  const std::string node = fmt::format("n{}", random() % 20);
  const std::string pod = fmt::format("p{}", random() % 40);
  const std::string value = std::to_string(random() % 1000);
  Request request;
  switch (random() % 8) {
    case 0:
      request = create_request(node_path(""), node_body(node));
      break;
    case 1:
      request =
          patch_request(node_path(node), fmt::format(R"({{"metadata":{{"labels":{{"x":"{}"}}}}}})", value));
      break;
    case 2:
      request = delete_request(node_path(node));
      break;
    case 3:
      request = kill_pod_request(pod);
      break;
    case 4:
    case 5:
      request = create_request(pod_path("default", ""), pod_body(pod, "n0"));
      break;
    default:
      request = patch_request(pod_path("default", pod),
                              fmt::format(R"({{"metadata":{{"annotations":{{"x":"{}"}}}}}})", value));
      break;
  }
  request.max_attempts = 1;
  return request;
}

// Number of rounds of 300 changes. The default makes 3,600 changes; `make soak` makes more.
int rounds() {
  const char* wanted = std::getenv("TESSERA_REPLAY_ROUNDS");
  return wanted == nullptr ? 12 : std::max(std::atoi(wanted), 4);
}

// Watches nodes and pods through a relay that breaks or hangs connections at any byte, while
// another client changes them.
class RandomReplay : public Watching {
 protected:
  RandomReplay()
      : relay_(http::parse_url(access().cluster.server).value().port), shaky_(client(through_relay())) {
    options_.watch_for = 2s;
    options_.idle = 1s;
    options_.page_items = 10;
    options_.page_deadline = 2s;
    ReflectorOptions pods = options_;
    pods.path = "/api/v1/pods";
    pod_reflector_ = std::make_unique<Reflector>(shaky_, pods, pods_);
    pod_reflector_->start();
    reflector_ = std::make_unique<Reflector>(shaky_, options_, sink_);
    reflector_->start();
  }
  ~RandomReplay() override {
    pod_reflector_.reset();
    reflector_.reset();
  }

  ClusterAccess through_relay() {
    ClusterAccess access = this->access();
    access.cluster.server = fmt::format("https://127.0.0.1:{}", relay_.port());
    return access;
  }

  // Sends `count` random changes, 16 at a time, and waits for all responses.
  void change(int count) {
    std::vector<Call> calls;
    std::size_t answers = 0;
    for (int i = 0; i < count; ++i) {
      calls.push_back(client_.send(random_change(random_), [&](const Result<Reply>& reply) {
        ++answers;
        changes_ += reply ? 1 : 0;
      }));
      ASSERT_TRUE(wait([&] { return answers + 16 > calls.size(); }));
    }
    ASSERT_TRUE(wait([&] { return answers == calls.size(); }));
  }

  // Makes the server forget all earlier versions, on disk and in memory.
  void forget_history() {
    compact();
    cluster("restart kube-apiserver");
    Request alive = get_request("/readyz");
    alive.deadline = 60s;
    alive.max_attempts = 1000;
    must(std::move(alive));
  }

  CuttingRelay relay_;
  Client shaky_;
  VersionSink pods_;
  std::unique_ptr<Reflector> pod_reflector_;
  std::mt19937_64 random_{11};
  std::uint64_t changes_ = 0;
};

// Thousands of random changes, as many as in an hour of a real cluster, while connections break or
// hang and the server restarts without its history. Whenever the network works, the sinks must
// converge to a fresh list. VersionSink checks that no version is delivered twice and no object is
// forgotten twice.
TEST_F(RandomReplay, ConvergesToAFreshList) {
  for (int round = 0; round < rounds(); ++round) {
    relay_.break_after(round % 3 == 0 ? 10'000 : 100'000);
    change(300);
    if (round % 8 == 5) {
      forget_history();
    }
    if (round % 4 == 3) {
      relay_.heal();
      expect_equal("/api/v1/nodes", sink_);
      expect_equal("/api/v1/pods", pods_);
    }
  }
  EXPECT_GT(changes_, 500U);
  EXPECT_GE(relay_.broken(), 5U);
  EXPECT_GE(relay_.hung(), 2U);
  EXPECT_GT(sink_.forgotten, 10);
  EXPECT_GT(pods_.forgotten, 10);
}

}  // namespace
}  // namespace tessera::kube
