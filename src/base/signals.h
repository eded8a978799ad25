// base/signals.h
//
// Signals as something to read, not as something that interrupts.
//
//   SignalWatch signals = TRY(SignalWatch::create({SIGTERM, SIGINT, SIGHUP}));
//   ... start threads, poll signals.fd() beside everything else ...
//   if (auto number = signals.read(); number == SIGHUP) reload();
//
// Create it first thing in main: threads inherit the blocked signals, and one that was started before would
// still die of them.
#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>

#include "base/fd.h"
#include "base/result.h"

namespace tessera {

class SignalWatch {
 public:
  // Blocks `signals` for this thread and those it starts from now on. SIGPIPE is ignored as well: a peer
  // that hangs up is an error of write(2), not the end of the process.
  static Result<SignalWatch> create(std::initializer_list<int> signals);

  SignalWatch(SignalWatch&&) noexcept = default;
  SignalWatch& operator=(SignalWatch&&) = delete;
  // Gives the thread its old signal mask back. Signals that were not read are dropped, not delivered.
  ~SignalWatch();

  // Readable when a signal waits. Stays ours.
  [[nodiscard]] int fd() const { return fd_.get(); }

  // The next signal that waits, or nothing; never blocks.
  std::optional<int> read();

 private:
  SignalWatch(Fd fd, sigset_t old_mask) : fd_(std::move(fd)), old_mask_(old_mask) {}

  Fd fd_;
  sigset_t old_mask_;
};

}  // namespace tessera
