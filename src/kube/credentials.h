// kube/credentials.h
//
// What proves to the API server who we are, kept fresh: token files are read again, exec plugins run again
// when what they gave runs out or was refused.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "kube/exec_credential.h"
#include "kube/kubeconfig.h"

namespace tessera::kube {

// Goes along with requests, often with many at once: shared, not copied. Never logged.
struct Credential {
  std::string authorization;       // the header's value; "" for none
  std::string client_certificate;  // PEM; "" for none
  std::string client_key;
  // Grows when certificate or key change: connections made before belong to somebody else then.
  std::uint64_t certificate_generation = 0;
};
using CredentialPtr = std::shared_ptr<const Credential>;

// Any thread may call. Only current() can take long.
class Credentials {
 public:
  using RunPlugin = std::function<Result<ExecCredential>()>;

  // `clock` must outlive this. `run_plugin` stands in for the real plugin in tests.
  Credentials(ClusterAccess access, const Clock& clock, RunPlugin run_plugin = {});

  // What to send now. Reads a token or certificate file again after a minute (kubelet rotates tokens at 80%
  // of their life, so a minute is early enough) and runs an exec plugin when its last answer has run out,
  // which may take as long as the plugin does: see blocks().
  Result<CredentialPtr> current();

  // Whether current() would now have to run a program. Where waiting is not allowed, call current() on
  // another thread then.
  [[nodiscard]] bool blocks() const;

  // The server answered 401 to `refused`. The next current() reads or runs anew, unless that has already
  // happened since. False when there is nothing fresher to be had, so that trying again is no use.
  bool refused(const Credential& refused);

 private:
  struct Fetched {
    Credential credential;
    std::optional<Clock::Wall> expires;
  };
  Result<CredentialPtr> refresh();
  [[nodiscard]] Result<Fetched> from_exec() const;
  [[nodiscard]] Result<Fetched> from_files() const;
  [[nodiscard]] bool fresh() const;

  const ClusterAccess access_;
  const Clock& clock_;
  const RunPlugin run_plugin_;
  std::mutex refreshing_;     // one refresh at a time; held while a plugin runs
  mutable std::mutex mutex_;  // of what follows; never held while a plugin runs
  CredentialPtr last_;
  Clock::Steady read_at_{};
  std::optional<Clock::Wall> expires_;
  std::uint64_t certificate_generation_ = 0;
  std::string certificate_;
};

}  // namespace tessera::kube
