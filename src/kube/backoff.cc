#include "kube/backoff.h"

#include <algorithm>
#include <memory>
#include <random>

namespace tessera::kube {

Random default_random() {
  std::random_device device;
  const std::uint64_t seed = (std::uint64_t{device()} << 32U) | device();
  auto engine = std::make_shared<std::mt19937_64>(seed);
  return [engine] { return (*engine)(); };
}

std::uint64_t below(const Random& random, std::uint64_t bound) {
  if (bound == 0) {
    return 0;
  }
  // The upper half of a 64 x 64 bit product: uniform enough for waits, and exact for small bounds.
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(random()) * bound) >> 64U);
}

std::chrono::milliseconds Backoff::next() {
  const int doublings = std::min(failures_, 30);
  ++failures_;
  const std::int64_t cap = std::max<std::int64_t>(options_.cap.count(), 1);
  const std::int64_t first = std::max<std::int64_t>(options_.first.count(), 1);
  const std::int64_t span = first > (cap >> doublings) ? cap : std::min(cap, first << doublings);
  const auto half = static_cast<std::uint64_t>(span / 2);
  return std::chrono::milliseconds(span - static_cast<std::int64_t>(below(random_, half + 1)));
}

}  // namespace tessera::kube
