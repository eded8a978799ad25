#include "agent/devices/directory_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace tessera::agent {

namespace {

// The polling interval while the directory is not watched.
constexpr std::chrono::milliseconds kPoll{100};

// Reads all pending events. Returns whether the watched directory itself is gone.
bool drain(int inotify) {
  alignas(inotify_event) std::array<char, 4096> buffer{};
  bool gone = false;
  ssize_t bytes = 0;
  while ((bytes = ::read(inotify, buffer.data(), buffer.size())) > 0) {
    for (ssize_t at = 0; at < bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      gone = gone || (event->mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF)) != 0;
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
  return gone;
}

}  // namespace

DirectoryWatch::DirectoryWatch(std::string directory)
    : directory_(std::move(directory)),
      inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  follow();
}

void DirectoryWatch::follow() {
  following_ = ::inotify_add_watch(inotify_.get(), directory_.c_str(),
                                   IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE_SELF |
                                       IN_MOVE_SELF | IN_ONLYDIR) >= 0;
}

void DirectoryWatch::wait(std::chrono::milliseconds at_most) {
  if (!following_) {
    follow();
    // The directory may have appeared, with all its files, since the caller last read it.
    at_most = following_ ? std::chrono::milliseconds(0) : std::min(at_most, kPoll);
  }
  std::array<pollfd, 2> fds{pollfd{.fd = inotify_.get(), .events = POLLIN, .revents = 0},
                            pollfd{.fd = waker_.get(), .events = POLLIN, .revents = 0}};
  (void)::poll(fds.data(), fds.size(), static_cast<int>(at_most.count()));
  if (drain(inotify_.get())) {
    following_ = false;
  }
  std::uint64_t ignored = 0;
  (void)!::read(waker_.get(), &ignored, sizeof ignored);
}

void DirectoryWatch::wake() const {
  const std::uint64_t one = 1;
  (void)!::write(waker_.get(), &one, sizeof one);
}

}  // namespace tessera::agent
