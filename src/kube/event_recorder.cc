#include "kube/event_recorder.h"

#include <mutex>

#include "base/log.h"
#include "kube/request.h"

namespace tessera::kube {

struct EventRecorder::Core : std::enable_shared_from_this<Core> {
  Core(Client& owner, EventRecorderOptions settings)
      : client(owner), options(std::move(settings)), aggregator(options.aggregator, client.clock()) {}

  // On the loop, one request at a time.
  void send_next();
  void answered(const EventWrite& write, const Result<Reply>& reply);

  Client& client;
  const EventRecorderOptions options;

  mutable std::mutex mutex;
  EventAggregator aggregator;
  bool sending = false;  // somebody is between send_next() and answered()

  Call call;          // the loop's thread
  http::Timer timer;  // likewise
};

void EventRecorder::Core::send_next() {
  std::optional<EventWrite> write;
  {
    const std::lock_guard lock(mutex);
    write = aggregator.next();
    sending = write.has_value();
  }
  if (!write) {
    return;
  }
  const bool create = write->kind == EventWrite::Kind::kCreate;
  Request request = create ? create_request(event_path(write->namespace_name, ""), write->body)
                           : patch_request(event_path(write->namespace_name, write->name), write->body);
  request.deadline = std::chrono::seconds(10);
  call = client.send(std::move(request),
                     [this, sent = std::move(*write)](const Result<Reply>& reply) { answered(sent, reply); });
}

void EventRecorder::Core::answered(const EventWrite& write, const Result<Reply>& reply) {
  auto outcome = EventAggregator::Outcome::kDone;
  if (!reply) {
    const bool gone = write.kind == EventWrite::Kind::kUpdate && reply.error().code() == ErrorCode::kNotFound;
    outcome = gone ? EventAggregator::Outcome::kGone : EventAggregator::Outcome::kFailed;
    if (!gone) {
      log::warn("event not written",
                {{"event", write.namespace_name + "/" + write.name}, {"error", reply.error()}});
    }
  }
  {
    const std::lock_guard lock(mutex);
    aggregator.done(write, outcome);
  }
  timer = client.loop().after(options.pace, [this] { send_next(); });
}

EventRecorder::EventRecorder(Client& client, EventRecorderOptions options)
    : core_(std::make_shared<Core>(client, std::move(options))) {}

EventRecorder::~EventRecorder() {
  core_->call = {};
  core_->timer = {};
}

bool EventRecorder::record(const EventNote& note) {
  bool taken = false;
  bool wake = false;
  {
    const std::lock_guard lock(core_->mutex);
    taken = core_->aggregator.record(note);
    wake = taken && !core_->sending;
    core_->sending = core_->sending || wake;
  }
  if (wake) {
    core_->client.loop().post([weak = std::weak_ptr(core_)] {
      if (const auto core = weak.lock()) {
        core->send_next();
      }
    });
  }
  return taken;
}

EventAggregator::Counts EventRecorder::counts() const {
  const std::lock_guard lock(core_->mutex);
  return core_->aggregator.counts();
}

bool EventRecorder::idle() const {
  const std::lock_guard lock(core_->mutex);
  return !core_->sending && core_->aggregator.waiting() == 0;
}

}  // namespace tessera::kube
