#include "gpu/driver.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "gpu/call_thread.h"
#include "gpu/session.h"

namespace tessera::gpu {

namespace {

// State that the driver thread and its callers share. It may outlive the Driver, because a hung
// call still refers to it.
struct Shared {
  CallMonitor monitor;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const DriverState> state = std::make_shared<DriverState>();

  alloc::Unit unit;

  // Returns the state before the first answer of the driver.
  [[nodiscard]] std::shared_ptr<const DriverState> initial_state(const alloc::Inventory& known) const {
    DriverState first;
    first.problem = "the NVIDIA driver has not answered yet";
    first.inventory = known;
    first.inventory.unit = unit;
    first.compute.resize(first.inventory.gpus.size());
    for (alloc::Gpu& gpu : first.inventory.gpus) {
      gpu.unhealthy = first.problem;
    }
    return std::make_shared<const DriverState>(std::move(first));
  }

  std::mutex callback_mutex;  // held while on_change runs, so that ~Driver can wait for it
  DriverOptions::OnChange on_change;

  void publish(DriverState next) {
    auto fresh = std::make_shared<const DriverState>(std::move(next));
    {
      const std::lock_guard lock(mutex);
      state = fresh;
    }
    changed.notify_all();
    const std::lock_guard lock(callback_mutex);
    if (on_change) {
      on_change(fresh);
    }
  }
};

}  // namespace

struct Driver::Impl {
  Impl(Milliseconds hung, const std::shared_ptr<Shared>& common, std::shared_ptr<Session> made)
      : hung_after(hung),
        shared(common),
        session(made),
        thread(std::shared_ptr<const CallMonitor>(common, &common->monitor),
               [session = std::move(made)] { return session->step(); }) {}

  static std::shared_ptr<Session> make_session(const std::shared_ptr<Shared>& shared, DriverOptions options) {
    shared->on_change = std::exchange(options.on_change, nullptr);
    shared->unit = options.discovery.unit;
    shared->state = shared->initial_state(options.known);
    return std::make_shared<Session>(std::move(options), shared->monitor,
                                     [shared](DriverState state) { shared->publish(std::move(state)); });
  }

  Milliseconds hung_after;
  std::shared_ptr<Shared> shared;
  // The thread owns the session, which must be destroyed on that thread. Jobs also run there.
  std::weak_ptr<Session> session;
  CallThread thread;
};

Driver::Driver(DriverOptions options) {
  const Milliseconds hung_after = options.hung_after;
  const auto shared = std::make_shared<Shared>();
  impl_ = std::make_unique<Impl>(hung_after, shared, Impl::make_session(shared, std::move(options)));
}

Driver::~Driver() {
  const std::lock_guard lock(impl_->shared->callback_mutex);
  impl_->shared->on_change = nullptr;
}

std::shared_ptr<const DriverState> Driver::state() const {
  const std::lock_guard lock(impl_->shared->mutex);
  return impl_->shared->state;
}

std::shared_ptr<const DriverState> Driver::wait_ready(Milliseconds at_most) const {
  return wait_for(at_most, [](const DriverState& state) { return state.ready; });
}

std::shared_ptr<const DriverState> Driver::wait_for(
    Milliseconds at_most, const std::function<bool(const DriverState&)>& good) const {
  std::unique_lock lock(impl_->shared->mutex);
  impl_->shared->changed.wait_for(lock, at_most, [&] { return good(*impl_->shared->state); });
  return impl_->shared->state;
}

Status Driver::problem() const {
  const auto running = impl_->shared->monitor.running();
  const auto now = Clock::real().now();
  if (running && now - running->since >= impl_->hung_after) {
    return fail(ErrorCode::kTimeout, hung_call_text(*running, now));
  }
  const auto known = state();
  if (!known->ready) {
    return fail(ErrorCode::kUnavailable, known->problem);
  }
  return {};
}

CallMonitor::Counts Driver::calls() const {
  return impl_->shared->monitor.counts();
}

void Driver::set_known(const alloc::Inventory& known) {
  {
    const std::lock_guard lock(impl_->shared->mutex);
    if (impl_->shared->state->version == 0) {
      impl_->shared->state = impl_->shared->initial_state(known);
    }
  }
  impl_->thread.post([session = impl_->session, known] {
    if (const auto alive = session.lock()) {
      alive->set_known(known);
    }
  });
}

Result<std::vector<GpuProcess>> Driver::processes(const std::string& uuid, Milliseconds deadline) {
  return impl_->thread.call<std::vector<GpuProcess>>(
      "processes of GPU " + uuid, deadline,
      [session = impl_->session, uuid] { return session.lock()->processes(uuid); });
}

Result<GpuUsage> Driver::usage(const std::string& uuid, Milliseconds deadline) {
  return impl_->thread.call<GpuUsage>("usage of GPU " + uuid, deadline, [session = impl_->session, uuid] {
    return session.lock()->usage(uuid);
  });
}

void Driver::sample(std::function<void(std::vector<GpuSample>)> done) {
  impl_->thread.post([session = impl_->session, done = std::move(done)] {
    if (const auto alive = session.lock()) {
      done(alive->sample());
    }
  });
}

}  // namespace tessera::gpu
