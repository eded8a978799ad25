// agent/devices/directory_watch.h
//
// Waits until an entry of a directory appears or goes, until it is woken, or until time is up.
#pragma once

#include <chrono>
#include <string>

#include "base/fd.h"

namespace tessera::agent {

class DirectoryWatch {
 public:
  // If the kernel has no watch left (their number per user is limited), wait() polls instead.
  explicit DirectoryWatch(std::string directory);

  // One thread. Returns early on any change. The directory may not exist yet, or be recreated.
  void wait(std::chrono::milliseconds at_most);

  // Any thread. Ends the current wait, or the next one, at once.
  void wake() const;

 private:
  void follow();

  const std::string directory_;
  const Fd inotify_;
  const Fd waker_;
  bool following_ = false;
};

}  // namespace tessera::agent
