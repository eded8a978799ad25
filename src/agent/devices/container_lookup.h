// agent/devices/asker.h
//
// Which container kubelet asks for: its questions carry a resource and a number, and no name.
//
// kubelet admits one pod at a time, containers in the order of the pod, and knows no pod that still waits:
// podresources Get answers for the one being admitted and not for those behind it. So the next pod in bind
// order is a guess, and one Get confirms it. When no pod fits, the watch is late (it often is, by some
// milliseconds), and the API server is asked.
//
// Kubelets before 1.34 have no Get: there bind order has to do, and PreStartContainer finds mistakes.
//
// On the event loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/allocations.h"
#include "agent/devices/loop_gate.h"
#include "agent/devices/node_pods.h"
#include "agent/devices/pod_resources.h"
#include "http/event_loop.h"

namespace tessera::agent {

struct Question {
  std::string resource;
  std::size_t size = 0;  // IDs that the container asked for
};

struct Asker {
  std::string pod_uid;
  std::string container;
  bool confirmed = false;  // by kubelet; else the best guess
};

class AskerSearch {
 public:
  using Milliseconds = std::chrono::milliseconds;
  using Done = std::function<void(std::optional<Asker>)>;

  struct Edges {
    // Whether kubelet has begun with a pod: something of it was given, of any kind. Without: by the
    // allocations.
    std::function<bool(const std::string& pod_uid)> begun{};
    // podresources Get; `done` may come on any thread.
    std::function<void(const PodName&, Milliseconds, PodResources::Done<PodDevices>)> get;
    // Brings the pods of this node that are pending from the API server into the book; `done` comes on the
    // loop.
    std::function<void(std::function<void(Status)> done)> fetch;
    // kubelet says that the pod holds devices, and we did not know. They must be in the allocations then.
    std::function<void(const NodePod&, const PodDevices&)> learned;
    // kubelet has forgotten what it gave to the pod and admits it again: as if it were new.
    std::function<void(const NodePod&)> forgotten;
  };
  struct Counts {
    std::uint64_t confirmed = 0;
    std::uint64_t guessed = 0;  // kubelet could not be asked
    std::uint64_t unknown = 0;  // nobody fits
    std::uint64_t fetched = 0;  // the watch was late
  };

  AskerSearch(http::EventLoop& loop, const NodePods& pods, const Allocations& allocations, Edges edges,
              Milliseconds at_most = Milliseconds(450));
  ~AskerSearch();
  AskerSearch(const AskerSearch&) = delete;
  AskerSearch& operator=(const AskerSearch&) = delete;

  // `done` comes once, at the latest after `at_most`, possibly from within.
  void find(const Question& question, Done done);

  // The book has changed: searches that wait for a pod look again.
  void pods_changed();

  [[nodiscard]] const Counts& counts() const { return counts_; }
  // Whether this kubelet answered the last Get, as those of 1.34 and later do.
  [[nodiscard]] bool has_get() const { return has_get_; }

  // The container of `pod` that kubelet asks for next with this question; empty when there is none.
  [[nodiscard]] std::string next_container(const NodePod& pod, const Question& question) const;

 private:
  struct Search;

  void go_on(const std::shared_ptr<Search>& search);
  void confirm(const std::shared_ptr<Search>& search, const NodePod& pod);
  void got(const std::shared_ptr<Search>& search, const std::string& uid, const Result<PodDevices>& answer);
  void look_elsewhere(const std::shared_ptr<Search>& search);
  void end(const std::shared_ptr<Search>& search, std::optional<Asker> asker);
  void guess(const std::shared_ptr<Search>& search);
  void again(const std::shared_ptr<Search>& search);
  [[nodiscard]] const NodePod* candidate(const Search& search) const;
  [[nodiscard]] const NodePod* candidate_for_readmission(const Search& search) const;

  http::EventLoop& loop_;
  const NodePods& pods_;
  const Allocations& allocations_;
  Edges edges_;
  const Milliseconds at_most_;
  LoopGate gate_;
  std::vector<std::shared_ptr<Search>> open_;
  Counts counts_;
  bool has_get_ = true;
};

}  // namespace tessera::agent
