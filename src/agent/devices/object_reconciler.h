// agent/devices/object_reconciler.h
//
// Reconciles one API object: reads it, lets a callback compute the change, writes the change, and
// checks the object again from time to time, because other clients may change it too.
//
//   ObjectReconciler reconciler(client, {.path = kube::node_path("gpu-a"), .what = "inventory"},
//                               [&](const boost::json::value* node) { return change_of(node); });
//   reconciler.wake();          // the desired state has changed
//
// Writes nothing while the object is in the desired state. Retries failures forever, with growing
// pauses. Reads the object again after a conflict: a response 409, or an object that was created or
// deleted in the meantime. Sends one request at a time.
//
// All calls, including the destructor, are made on the event loop's thread.
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

struct ObjectReconcilerOptions {
  using Milliseconds = std::chrono::milliseconds;

  std::string path;  // of the object: "/api/v1/nodes/gpu-a"
  std::string what;  // for logs and errors: "inventory of node gpu-a"
  // How often to check an object that is in the desired state. Each interval is shortened at random
  // by up to a quarter.
  Milliseconds recheck_every{60'000};
  kube::BackoffOptions backoff{.first = Milliseconds(500), .cap = Milliseconds(30'000)};
};

class ObjectReconciler {
 public:
  // Returns the request that brings the object to the desired state. Returns nullopt if the object
  // is already in that state. The argument is the object, or null if it does not exist. An error
  // means that the object cannot be changed, for example because it has another owner. The error is
  // logged, and the object is checked again later.
  using Change = std::function<Result<std::optional<kube::Request>>(const boost::json::value*)>;

  struct State {
    bool settled = false;        // the object is in the desired state
    std::string problem;         // why it is not settled; empty if it is, or before the first attempt
    std::uint64_t writes = 0;    // writes that succeeded
    std::uint64_t failures = 0;  // failed requests, not counting conflicts
    std::uint64_t races = 0;     // conflicts with other clients
  };

  // Does nothing before the first wake(). `client` must outlive this object.
  ObjectReconciler(kube::Client& client, ObjectReconcilerOptions options, Change change);
  ObjectReconciler(const ObjectReconciler&) = delete;
  ObjectReconciler& operator=(const ObjectReconciler&) = delete;

  // Checks the object soon. Call it after the desired state has changed.
  void wake();

  [[nodiscard]] const State& state() const { return state_; }

 private:
  void read();
  void read_done(const Result<kube::Reply>& reply);
  void reconcile(const boost::json::value* object);
  void write(kube::Request request);
  void written(const Result<kube::Reply>& reply);
  void settle();
  void retry_after(const Error& error);
  void again_after(std::chrono::milliseconds wait);

  kube::Client& client_;
  const ObjectReconcilerOptions options_;
  Change change_;
  State state_;
  kube::Random random_;
  kube::Backoff backoff_;
  bool stale_ = false;  // wake() was called while a request was in flight
  kube::Call call_;
  http::Timer timer_;
};

}  // namespace tessera::agent
