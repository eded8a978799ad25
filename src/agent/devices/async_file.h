// agent/devices/async_file.h
//
// A file that is written by its own thread, so that no caller waits for the disk. kubelet waits for
// the agent's answers, and a write to a busy disk can take a long time. If the contents are set several
// times in quick succession, only the last contents are written. The destructor writes pending
// contents.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace tessera::agent {

class AsyncFile {
 public:
  // The directory of `path` must exist. If `path` is empty, nothing is written.
  explicit AsyncFile(std::string path);
  ~AsyncFile();
  AsyncFile(const AsyncFile&) = delete;
  AsyncFile& operator=(const AsyncFile&) = delete;

  // Writes `contents` soon. Call it from any thread.
  void set(std::string contents);
  // Returns why the last write failed; empty if it succeeded or nothing has been written yet.
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
