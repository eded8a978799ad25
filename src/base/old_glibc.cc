// Lets a program that was linked on Debian 12 start on machines with glibc 2.34 (Ubuntu 22.04, RHEL 9).
//
// libstdc++'s random_device calls arc4random, which entered glibc in 2.36. A definition inside the program
// takes its place, so that the dynamic linker never looks for the newer symbol.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" std::uint32_t arc4random() {
  std::uint32_t value = 0;
  // Four bytes are never cut short by a signal (getrandom(2)); a failure means no randomness at all, and
  // going on with a predictable number would be worse than stopping.
  if (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    std::abort();
  }
  return value;
}
