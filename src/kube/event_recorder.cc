#include "kube/event_recorder.h"

#include <mutex>

#include "base/log.h"
#include "kube/request.h"

namespace tessera::kube {

struct EventRecorder::Impl : std::enable_shared_from_this<Impl> {
  Impl(Client& owner, EventRecorderOptions settings)
      : client(owner), options(std::move(settings)), aggregator(options.aggregator, client.clock()) {}

  // Both run on the loop, for one request at a time.
  void send_next();
  void on_reply(const EventWrite& write, const Result<Reply>& reply);

  Client& client;
  const EventRecorderOptions options;

  mutable std::mutex mutex;
  EventAggregator aggregator;
  bool sending = false;  // a request is in flight or about to be sent

  Call call;          // the loop's thread only
  http::Timer timer;  // the loop's thread only
};

void EventRecorder::Impl::send_next() {
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
                     [this, sent = std::move(*write)](const Result<Reply>& reply) { on_reply(sent, reply); });
}

void EventRecorder::Impl::on_reply(const EventWrite& write, const Result<Reply>& reply) {
  auto outcome = EventAggregator::Outcome::kDone;
  if (!reply) {
    const bool gone = write.kind == EventWrite::Kind::kUpdate && reply.error().code() == ErrorCode::kNotFound;
    outcome = gone ? EventAggregator::Outcome::kGone : EventAggregator::Outcome::kFailed;
    if (!gone) {
      log::warn("cannot write an Event",
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
    : impl_(std::make_shared<Impl>(client, std::move(options))) {}

EventRecorder::~EventRecorder() {
  impl_->call = {};
  impl_->timer = {};
}

bool EventRecorder::record(const EventNote& note) {
  bool taken = false;
  bool wake = false;
  {
    const std::lock_guard lock(impl_->mutex);
    taken = impl_->aggregator.record(note);
    wake = taken && !impl_->sending;
    impl_->sending = impl_->sending || wake;
  }
  if (wake) {
    impl_->client.loop().post([weak = std::weak_ptr(impl_)] {
      if (const auto impl = weak.lock()) {
        impl->send_next();
      }
    });
  }
  return taken;
}

EventAggregator::Counts EventRecorder::counts() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->aggregator.counts();
}

bool EventRecorder::idle() const {
  const std::lock_guard lock(impl_->mutex);
  return !impl_->sending && impl_->aggregator.waiting() == 0;
}

}  // namespace tessera::kube
