// A fake API server for the measured extender. It serves a large cluster from prepared bytes, in a
// separate process, so that its CPU time and memory are not counted for the extender.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera::bench {

// A child process that ends with its parent.
class Child {
 public:
  Child() = default;
  // Runs `serve` in a new process. `serve` calls its argument with the port when it listens.
  static Child serving(const std::function<void(const std::function<void(std::uint16_t)>&)>& serve);
  // Runs a program; its output goes to `log`.
  static Child program(const std::vector<std::string>& command, const std::string& log);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }

  void end();
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  pid_t pid_ = 0;
  std::uint16_t port_ = 0;
};

struct StandInCluster {
  unsigned nodes = 5'000;    // DGX-1V, as printed by `tessera inventory`
  unsigned pods = 40'000;    // bound, each with a GPU share
  unsigned waiting = 4'000;  // unbound, "waiting-0" and up, for binds
};

std::string node_name(unsigned i);
std::string waiting_uid(unsigned i);

// Serves lists in pages; watches report nothing; every POST succeeds.
Child stand_in_api(const StandInCluster& cluster);

}  // namespace tessera::bench
