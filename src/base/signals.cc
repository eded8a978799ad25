#include "base/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace tessera {

Result<SignalWatch> SignalWatch::create(std::initializer_list<int> signals) {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int number : signals) {
    if (sigaddset(&watched, number) != 0) {
      return fail(Error::from_errno("watch signal " + std::to_string(number), errno));
    }
  }
  Fd fd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) {
    return fail(Error::from_errno("signalfd", errno));
  }
  sigset_t old_mask;
  if (const int error = pthread_sigmask(SIG_BLOCK, &watched, &old_mask); error != 0) {
    return fail(Error::from_errno("block signals", error));
  }
  std::signal(SIGPIPE, SIG_IGN);
  return SignalWatch(std::move(fd), old_mask);
}

SignalWatch::~SignalWatch() {
  if (!fd_.valid()) {
    return;
  }
  while (read()) {
  }
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

std::optional<int> SignalWatch::read() {
  signalfd_siginfo info{};
  ssize_t got = 0;
  do {
    got = ::read(fd_.get(), &info, sizeof info);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof info)) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

}  // namespace tessera
