#include "agent/devices/async_file.h"

#include "base/file.h"
#include "base/log.h"

namespace tessera::agent {

AsyncFile::AsyncFile(std::string path) : path_(std::move(path)), thread_([this] { run(); }) {}

AsyncFile::~AsyncFile() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AsyncFile::set(std::string contents) {
  {
    const std::lock_guard lock(mutex_);
    next_ = std::move(contents);
  }
  changed_.notify_all();
}

std::string AsyncFile::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

void AsyncFile::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return next_.has_value() || ending_; });
    if (!next_) {
      return;
    }
    const std::string contents = *std::move(next_);
    next_.reset();
    lock.unlock();
    const Status written = path_.empty() ? Status() : write_file(path_, contents, 0600);
    lock.lock();
    const std::string problem = written ? "" : written.error().text();
    if (problem != problem_ && !problem.empty()) {
      log::error("cannot write the state file; after a restart the agent rebuilds its state from kubelet",
                 {{"file", path_}, {"error", problem}});
    }
    problem_ = problem;
  }
}

}  // namespace tessera::agent
