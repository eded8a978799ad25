// CPU time of the calling thread. A test can put a bound on it even if the machine is busy with
// other work.
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
