#include "agent/devices/drain.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "base/json_reader.h"
#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

constexpr std::chrono::milliseconds kAskEvery{100};
constexpr std::chrono::seconds kRequest{3};
constexpr std::size_t kMaxNodeBytes = 4U << 20U;

// Returns a text that differs for every process: "2026-11-18T00:20:00Z 5c1f09aa".
std::string new_value() {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    number = static_cast<std::uint32_t>(Clock::real().now().time_since_epoch().count());
  }
  return fmt::format("{} {:08x}", rfc3339_seconds(Clock::real().wall()), number);
}

std::string patch_of(const boost::json::value& draining) {
  const boost::json::value patch = {{"metadata",
                                     {{"annotations",
                                       {{std::string(alloc::key::kDraining), draining},
                                        {std::string(alloc::key::kDrainingSeen), nullptr}}}}}};
  return boost::json::serialize(patch);
}

// Returns the value of an annotation of a Node; "" if it is absent.
Result<std::string> annotation_of(std::string_view node_json, std::string_view name) {
  const boost::json::value document = TRY(parse_json(node_json, kMaxNodeBytes));
  const JsonReader node(document, "node");
  const JsonReader metadata = TRY(node.object("metadata"));
  if (!metadata.has("annotations")) {
    return "";
  }
  const JsonReader annotations = TRY(metadata.object("annotations"));
  const std::string key(name);
  return annotations.has(key) ? annotations.text(key) : Result<std::string>("");
}

}  // namespace

void Drain::begin(std::chrono::milliseconds at_most, std::function<void()> done) {
  done_ = std::move(done);
  value_ = new_value();
  until_ = Clock::real().now() + at_most;
  log::info("announcing the end of this agent", {{"node", node_.node}, {"at_most_ms", at_most.count()}});
  announce();
}

void Drain::announce() {
  kube::Request request =
      kube::patch_request(kube::node_path(node_.node), patch_of(boost::json::value(value_)));
  request.deadline = kRequest;
  call_ = node_.client.send(std::move(request), [this](const Result<kube::Reply>& reply) {
    if (!reply) {
      log::warn("cannot announce the end of this agent", {{"error", reply.error()}});
    }
    ask();
  });
  // The call may take longer than begin() may.
  timer_ =
      node_.loop.after(std::chrono::duration_cast<std::chrono::milliseconds>(until_ - Clock::real().now()),
                       [this] { finish("timeout"); });
}

// Waits for the acknowledgement, then for the admission of the pods that are bound already.
void Drain::ask() {
  if (!done_) {
    return;
  }
  if (acknowledged_ && not_admitted() == 0) {
    finish("no pods are bound to this node any more");
    return;
  }
  if (Clock::real().now() >= until_) {
    finish(acknowledged_ ? "some pods are still not admitted" : "the extender did not acknowledge in time");
    return;
  }
  const auto again = [this] { timer_ = node_.loop.after(kAskEvery, [this] { ask(); }); };
  if (acknowledged_) {
    again();
    return;
  }
  kube::Request request = kube::get_request(kube::node_path(node_.node));
  request.deadline = std::min<std::chrono::milliseconds>(
      kRequest, std::chrono::duration_cast<std::chrono::milliseconds>(until_ - Clock::real().now()));
  request.max_attempts = 1;
  request.max_response_bytes = kMaxNodeBytes;
  call_ = node_.client.send(std::move(request), [this, again](const Result<kube::Reply>& reply) {
    const Result<std::string> seen =
        reply ? annotation_of(reply->body.text(), alloc::key::kDrainingSeen) : fail(reply.error());
    acknowledged_ = seen && *seen == value_;
    again();
  });
}

void Drain::finish(const char* result) {
  if (std::function<void()> done = std::exchange(done_, nullptr)) {
    timer_.cancel();
    log::info("this agent ends", {{"result", result}, {"not_admitted", not_admitted()}});
    done();
  }
}

// Returns the number of pods that are bound to this node and not admitted by kubelet yet.
std::size_t Drain::not_admitted() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      node_.pods.in_bind_order(),
      [this](const NodePod* pod) { return !pod->started() && !node_.pods.admission_begun(pod->spec.uid); }));
}

bool Drain::check(bool ready, bool alone) {
  const bool settled = ready && alone && value_.empty();
  const bool was_settled = std::exchange(was_settled_, settled);
  if (!settled) {
    cleared_ = false;
    return false;
  }
  if (!was_settled || cleared_ || clearing_) {
    return false;
  }
  clear();
  return true;
}

void Drain::clear() {
  clearing_ = true;
  kube::Request request = kube::get_request(kube::node_path(node_.node));
  request.deadline = kRequest;
  request.max_response_bytes = kMaxNodeBytes;
  call_ = node_.client.send(std::move(request), [this](const Result<kube::Reply>& reply) {
    const Result<std::string> value =
        reply ? annotation_of(reply->body.text(), alloc::key::kDraining) : fail(reply.error());
    clearing_ = false;
    if (!value_.empty()) {
      return;  // this agent now ends itself
    }
    if (!value || value->empty()) {
      cleared_ = value.has_value();
      return;
    }
    clearing_ = true;
    kube::Request patch = kube::patch_request(kube::node_path(node_.node), patch_of(nullptr));
    patch.deadline = kRequest;
    call_ = node_.client.send(std::move(patch), [this](const Result<kube::Reply>& written) {
      clearing_ = false;
      cleared_ = written.has_value();
      if (written) {
        log::info("this agent serves the node; pods may be bound to it again", {{"node", node_.node}});
      } else {
        log::warn("cannot remove the announcement of an earlier agent", {{"error", written.error()}});
      }
    });
  });
}

}  // namespace tessera::agent
