#include "base/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace tessera {

Result<Fd> Fd::open(const std::string& path, int flags, unsigned mode) {
  int raw = -1;
  do {
    raw = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (raw < 0 && errno == EINTR);
  if (raw < 0) {
    return fail(Error::from_errno("open " + path, errno));
  }
  return Fd(raw);
}

void Fd::reset(int raw) {
  if (raw_ >= 0) {
    // Linux frees the descriptor even if close fails with EINTR. A retry could close a descriptor
    // that another thread has just opened.
    ::close(raw_);
  }
  raw_ = raw;
}

Result<Pipe> Pipe::create() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(Error::from_errno("pipe", errno));
  }
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

}  // namespace tessera
