// agent/devices/directory_watch.h
//
// Waits until a file appears in or disappears from a directory, wake() is called, or a given time has
// passed.
#pragma once

#include <chrono>
#include <string>

#include "base/fd.h"

namespace tessera::agent {

class DirectoryWatch {
 public:
  // If inotify cannot watch the directory (it may be missing, and watches per user are limited),
  // wait() polls instead.
  explicit DirectoryWatch(std::string directory);

  // Waits for at most `at_most` and returns early on any change. The directory may be missing or be
  // recreated. Call it from one thread only.
  void wait(std::chrono::milliseconds at_most);

  // Ends the current wait() or, if there is none, the next one. Call it from any thread.
  void wake() const;

 private:
  void follow();

  const std::string directory_;
  const Fd inotify_;
  const Fd waker_;
  bool following_ = false;
};

}  // namespace tessera::agent
