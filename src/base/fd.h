// base/fd.h
//
// A file descriptor that closes itself.
#pragma once

#include <utility>

#include "base/result.h"

namespace tessera {

class Fd {
 public:
  Fd() = default;
  // Takes ownership of `raw`; -1 means none.
  explicit Fd(int raw) : raw_(raw) {}
  Fd(Fd&& other) noexcept : raw_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  // Calls open(2) with O_CLOEXEC. The error names the path.
  static Result<Fd> open(const std::string& path, int flags, unsigned mode = 0);

  [[nodiscard]] bool valid() const { return raw_ >= 0; }
  // The raw descriptor, for system calls. Ownership stays with the Fd.
  [[nodiscard]] int get() const { return raw_; }
  // Transfers ownership to the caller.
  [[nodiscard]] int release() { return std::exchange(raw_, -1); }
  // Closes the current descriptor, if any, and takes ownership of `raw`.
  void reset(int raw = -1);

 private:
  int raw_ = -1;
};

// A pipe(2), both ends O_CLOEXEC.
struct Pipe {
  Fd read_end;
  Fd write_end;
  static Result<Pipe> create();
};

}  // namespace tessera
