// agent/devices/async_file.h
//
// A file that is written by its own thread, so that no caller waits for a disk: kubelet waits while
// the agent answers it, and a flush to a busy disk takes long. Of several contents set in quick
// succession only the last is written. The destructor writes what is left.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace tessera::agent {

class AsyncFile {
 public:
  // The directory must exist. With an empty path nothing is written.
  explicit AsyncFile(std::string path);
  ~AsyncFile();
  AsyncFile(const AsyncFile&) = delete;
  AsyncFile& operator=(const AsyncFile&) = delete;

  // Any thread.
  void set(std::string contents);
  // Why the last contents could not be written; empty when they were, or are not written yet.
  [[nodiscard]] std::string problem() const;

 private:
  void run();

  const std::string path_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> next_;
  std::string problem_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace tessera::agent
