// agent/devices/object_keeper.h
//
// Keeps one object of the API server as it should be: reads it, asks what to change, writes that, and looks
// again now and then, since others may change it too.
//
//   ObjectKeeper keeper(client, {.path = kube::node_path("gpu-a"), .what = "inventory of node gpu-a"},
//                       [&](const boost::json::value* node) { return mend(node); });
//   keeper.wake();          // what is wanted has changed
//
// Nothing is written while the object is as it should be. Failures are tried again with growing waits for
// ever; a lost race (409, or an object that came or went meanwhile) is read again. One request at a time.
//
// On the event loop's thread; destroy it there.
#pragma once

#include <boost/json/value.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "kube/backoff.h"
#include "kube/client.h"

namespace tessera::agent {

struct ObjectKeeperOptions {
  using Milliseconds = std::chrono::milliseconds;

  std::string path;                 // of the object: "/api/v1/nodes/gpu-a"
  std::string what;                 // in logs and problems: "inventory of node gpu-a"
  Milliseconds look_again{60'000};  // while all is well; spread by up to a quarter
  kube::BackoffOptions backoff{.first = Milliseconds(500), .cap = Milliseconds(30'000)};
};

class ObjectKeeper {
 public:
  // What to do about the object as it is; null when it does not exist. Nothing: it is as it should be. An
  // error: it cannot be mended (it is somebody else's); told in the log, looked at again later.
  using Mend = std::function<Result<std::optional<kube::Request>>(const boost::json::value*)>;

  struct State {
    bool settled = false;        // the object is as it was last wanted
    std::string problem;         // why not; empty when it is, or when nothing has been tried yet
    std::uint64_t writes = 0;    // done
    std::uint64_t failures = 0;  // requests that failed, lost races not counted
    std::uint64_t races = 0;     // lost to others
  };

  // Does nothing before the first wake(). `client` must outlive it.
  ObjectKeeper(kube::Client& client, ObjectKeeperOptions options, Mend mend);
  ObjectKeeper(const ObjectKeeper&) = delete;
  ObjectKeeper& operator=(const ObjectKeeper&) = delete;

  // What is wanted has changed: looks at the object soon.
  void wake();

  [[nodiscard]] const State& state() const { return state_; }

 private:
  void read();
  void judge(const Result<kube::Reply>& reply);
  void mend(const boost::json::value* object);
  void write(kube::Request request);
  void written(const Result<kube::Reply>& reply);
  void settle();
  void give_up_for_now(const Error& why);
  void again_after(std::chrono::milliseconds wait);

  kube::Client& client_;
  const ObjectKeeperOptions options_;
  Mend mend_;
  State state_;
  kube::Random random_;
  kube::Backoff backoff_;
  bool stale_ = false;  // woken while a request was under way
  kube::Call call_;
  http::Timer timer_;
};

}  // namespace tessera::agent
