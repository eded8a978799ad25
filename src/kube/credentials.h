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

// What a request presents to the API server. Requests share it (CredentialPtr). Never log it.
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

  // `clock` must outlive this. `run_plugin` replaces the exec plugin in tests.
  Credentials(ClusterAccess access, const Clock& clock, RunPlugin run_plugin = {});

  // Returns the current credential. Re-reads token and certificate files after a minute (kubelet
  // rotates tokens at 80% of their lifetime, so a minute is early enough). Runs the exec plugin if
  // its last credential has expired, and blocks until it ends; see blocks().
  Result<CredentialPtr> current();

  // Returns whether current() would have to run a program. If so, call current() on a thread that
  // may block.
  [[nodiscard]] bool blocks() const;

  // Reports that the server responded 401 to `refused`. Unless a newer credential is already known,
  // re-reads the files now, or lets the next current() run the exec plugin. Returns false if no
  // newer credential can be expected, so that a retry is useless.
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
