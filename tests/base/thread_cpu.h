// How long the calling thread has computed: what a test may hold a bound against on a machine that is busy
// with others.
#pragma once

#include <chrono>
#include <ctime>

namespace tessera {

inline std::chrono::nanoseconds thread_cpu() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace tessera
