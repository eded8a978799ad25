// agent/devices/directory_watch.h
//
// Sleeps until something appears in or leaves a directory, somebody wakes it, or time is up.
#pragma once

#include <chrono>
#include <string>

#include "base/fd.h"

namespace tessera::agent {

class DirectoryWatch {
 public:
  // Where the kernel gives no watch (they are few for each user), wait() looks more often instead.
  explicit DirectoryWatch(std::string directory);

  // One thread. Returns early on any change; the directory may not exist yet, or be made anew.
  void wait(std::chrono::milliseconds at_most);

  // Any thread: the wait that is under way, or the next, ends at once.
  void wake() const;

 private:
  void follow();

  const std::string directory_;
  const Fd inotify_;
  const Fd waker_;
  bool following_ = false;
};

}  // namespace tessera::agent
