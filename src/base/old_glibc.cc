// Lets a program that was linked on Debian 12 run with glibc 2.34 (Ubuntu 22.04, RHEL 9).
//
// libstdc++'s random_device calls arc4random, which glibc has only since 2.36. With this definition
// inside the program, the dynamic linker never looks for the newer symbol.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" std::uint32_t arc4random() {
  std::uint32_t value = 0;
  // A signal never interrupts a read of four bytes (getrandom(2)). A failure therefore means that
  // there is no randomness at all, and a predictable number would be worse than an abort.
  if (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    std::abort();
  }
  return value;
}
