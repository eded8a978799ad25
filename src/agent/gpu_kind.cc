#include "agent/gpu_kind.h"

#include <utility>

#include "base/clock.h"

namespace tessera::agent {

template <class Answer, class Ok>
std::function<void(Answer)> GpuKind::timed(std::string_view question, std::function<void(Answer)> done,
                                           Ok ok) const {
  return [this, question, done = std::move(done), ok, begun = Clock::real().now()](Answer answer) {
    const bool good = ok(answer);
    done(std::move(answer));
    if (answered_) {
      answered_(question, name_, good, Clock::real().now() - begun);
    }
  };
}

void GpuKind::prefer(Preference preference, std::function<void(std::vector<std::string>)> done) {
  auto answer = timed<std::vector<std::string>>("prefer", std::move(done), [](const auto&) { return true; });
  loop_.post([this, preference = std::move(preference), answer = std::move(answer)]() mutable {
    allocator_.prefer(resource_, std::move(preference), std::move(answer));
  });
}

void GpuKind::allocate(std::vector<std::string> ids, std::function<void(Result<Grant>)> done) {
  auto answer =
      timed<Result<Grant>>("allocate", std::move(done), [](const auto& one) { return one.has_value(); });
  loop_.post([this, ids = std::move(ids), answer = std::move(answer)]() mutable {
    allocator_.allocate(resource_, std::move(ids), std::move(answer));
  });
}

void GpuKind::pre_start(std::vector<std::string> ids, std::function<void(Status)> done) {
  auto answer = timed<Status>("pre_start", std::move(done), [](const auto& one) { return one.has_value(); });
  loop_.post([this, ids = std::move(ids), answer = std::move(answer)]() mutable {
    allocator_.pre_start(resource_, std::move(ids), std::move(answer));
  });
}

}  // namespace tessera::agent
