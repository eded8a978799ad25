// What a measured extender talks to when there is no cluster: an API server that has a large cluster ready as
// bytes, in a process of its own, so that its CPU and memory are told apart.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera::bench {

// A process that ends with the one that started it.
class Child {
 public:
  Child() = default;
  // Runs `serve` in a new process; it calls its argument with the port once it listens.
  static Child serving(const std::function<void(const std::function<void(std::uint16_t)>&)>& serve);
  // A program; what it says goes to `log`.
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
  unsigned nodes = 5'000;    // DGX-1V, as `tessera inventory` prints them
  unsigned pods = 40'000;    // bound, each with a share of a GPU
  unsigned waiting = 4'000;  // unbound, "waiting-0" and up, for binds
};

std::string node_name(unsigned i);
std::string waiting_uid(unsigned i);

// Lists come in pages, watches stay silent, every POST succeeds.
Child stand_in_api(const StandInCluster& cluster);

}  // namespace tessera::bench
