// Replays bodies against HTTP servers, one connection and one request at a time as kube-scheduler does, and
// tells times, and the CPU of the server's process.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

namespace tessera::bench {

struct Round {
  double p50_ms = 0;
  double p99_ms = 0;
  double cpu_ms = 0;  // of the server, for each request
};

struct Target {
  std::string name;
  std::string url;  // of the verb
  pid_t pid = 0;    // 0: its CPU is not known
};

class Caller {
 public:
  explicit Caller(const std::string& url);
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller();

  // Throws when there is no answer with status 200.
  std::string call(const std::string& body);

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

// Plays `bodies` one after the other, again from the first, until there were so many `requests`, against each
// of the targets in turn, `rounds` times. Of each target the medians over its rounds.
std::vector<Round> play_interleaved(const std::vector<Target>& targets,
                                    const std::vector<std::string>& bodies, int requests, int rounds);

// User and system time of a process so far, all threads.
double cpu_ms(pid_t pid);
// Memory that is in use now, and the most that ever was.
double resident_mb(pid_t pid);
double peak_resident_mb(pid_t pid);

}  // namespace tessera::bench
