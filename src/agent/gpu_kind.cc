#include "agent/gpu_kind.h"

#include <utility>

namespace tessera::agent {

void GpuKind::prefer(Preference preference, std::function<void(std::vector<std::string>)> done) {
  loop_.post([this, preference = std::move(preference), done = std::move(done)]() mutable {
    allocator_.prefer(resource_, std::move(preference), std::move(done));
  });
}

void GpuKind::allocate(std::vector<std::string> ids, std::function<void(Result<Grant>)> done) {
  loop_.post([this, ids = std::move(ids), done = std::move(done)]() mutable {
    allocator_.allocate(resource_, std::move(ids), std::move(done));
  });
}

void GpuKind::pre_start(std::vector<std::string> ids, std::function<void(Status)> done) {
  loop_.post([this, ids = std::move(ids), done = std::move(done)]() mutable {
    allocator_.pre_start(resource_, std::move(ids), std::move(done));
  });
}

}  // namespace tessera::agent
