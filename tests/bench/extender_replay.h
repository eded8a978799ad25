// Replays request bodies against HTTP servers, one request at a time on one connection as
// kube-scheduler does, and measures latency and the CPU time of the server.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

namespace tessera::bench {

struct Round {
  double p50_ms = 0;
  double p99_ms = 0;
  double cpu_ms = 0;  // of the server, per request
};

struct Target {
  std::string name;
  std::string url;  // including the verb
  pid_t pid = 0;    // 0: unknown, then CPU time is not measured
};

class Caller {
 public:
  explicit Caller(const std::string& url);
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller();

  // Throws unless the response has status 200.
  std::string call(const std::string& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Sends `requests` requests to each target in turn, cycling through `bodies`, and repeats that
// `rounds` times. Returns the medians over the rounds for each target.
std::vector<Round> play_interleaved(const std::vector<Target>& targets,
                                    const std::vector<std::string>& bodies, int requests, int rounds);

// User and system time of all threads of a process.
double cpu_ms(pid_t pid);
// Current and peak resident memory.
double resident_mb(pid_t pid);
double peak_resident_mb(pid_t pid);

}  // namespace tessera::bench
