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

  // open(2) with O_CLOEXEC; the error names the path.
  static Result<Fd> open(const std::string& path, int flags, unsigned mode = 0);

  [[nodiscard]] bool valid() const { return raw_ >= 0; }
  // For system calls; stays ours.
  [[nodiscard]] int get() const { return raw_; }
  // Gives up ownership.
  [[nodiscard]] int release() { return std::exchange(raw_, -1); }
  // Closes what it holds and takes `raw`.
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
