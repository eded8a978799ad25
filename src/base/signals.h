// base/signals.h
//
// Delivers signals through a file descriptor instead of a signal handler.
//
//   SignalWatch signals = TRY(SignalWatch::create({SIGTERM, SIGINT, SIGHUP}));
//   ... start threads, poll signals.fd() in the event loop ...
//   if (auto number = signals.read(); number == SIGHUP) reload();
//
// Create the SignalWatch at the start of main, before any thread starts. Threads inherit the signal
// mask. A thread that was started earlier does not block the signals, so a signal could still end
// the process.
#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>

#include "base/fd.h"
#include "base/result.h"

namespace tessera {

class SignalWatch {
 public:
  // Blocks `signals` for this thread and the threads it starts later. Also ignores SIGPIPE, so that
  // write(2) to a closed connection returns an error instead of ending the process.
  static Result<SignalWatch> create(std::initializer_list<int> signals);

  SignalWatch(SignalWatch&&) noexcept = default;
  SignalWatch& operator=(SignalWatch&&) = delete;
  // Restores the thread's signal mask. Unread signals are dropped, not delivered.
  ~SignalWatch();

  // Readable when a signal is pending. Owned by this object.
  [[nodiscard]] int fd() const { return fd_.get(); }

  // Returns the next pending signal, if any. Never blocks.
  std::optional<int> read();

 private:
  SignalWatch(Fd fd, sigset_t old_mask) : fd_(std::move(fd)), old_mask_(old_mask) {}

  Fd fd_;
  sigset_t old_mask_;
};

}  // namespace tessera
