// kube/credentials.h
//
// Credentials for the API server. Re-reads token and certificate files, and runs exec plugins again
// when their credential expires or is refused.
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

// The credential that a request presents to the API server. Several requests share one credential
// (CredentialPtr). Never log it.
struct Credential {
  std::string authorization;       // value of the Authorization header; "" for none
  std::string client_certificate;  // PEM; "" for none
  std::string client_key;
  // Incremented when the certificate or key changes, because connections that were opened before
  // still have the old identity.
  std::uint64_t certificate_generation = 0;
};
using CredentialPtr = std::shared_ptr<const Credential>;

// Thread-safe. Only current() may block for long.
class Credentials {
 public:
  using RunPlugin = std::function<Result<ExecCredential>()>;

  // `clock` must outlive this object. `run_plugin` replaces the exec plugin in tests.
  Credentials(ClusterAccess access, const Clock& clock, RunPlugin run_plugin = {});

  // Returns the current credential. Re-reads token and certificate files that were read more than a
  // minute ago. A minute is early enough, because kubelet rotates tokens at 80% of their lifetime.
  // Runs the exec plugin if its last credential has expired, and blocks until the plugin ends; see
  // blocks().
  Result<CredentialPtr> current();

  // Returns whether current() would have to run a program. If so, call current() on a thread that
  // may block.
  [[nodiscard]] bool blocks() const;

  // Reports that the server responded 401 to `refused`. Returns whether a retry with current() is
  // useful, because a different credential is known or expected. If `refused` is still the current
  // credential, re-reads the files now, or makes the next current() run the exec plugin.
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
  std::mutex refreshing_;     // allows one refresh at a time; held while a plugin runs
  mutable std::mutex mutex_;  // guards the members below; never held while a plugin runs
  CredentialPtr last_;
  Clock::Steady read_at_{};
  std::optional<Clock::Wall> expires_;
  std::uint64_t certificate_generation_ = 0;
  std::string certificate_;
};

}  // namespace tessera::kube
