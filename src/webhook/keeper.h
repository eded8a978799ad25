// webhook/keeper.h
//
// Keeps the certificates of the webhook's server valid and trusted. Each replica has a keeper, and
// the keepers cooperate:
//
//   - The Secret has a current certificate. The keeper creates it, and renews it when one third of
//     its lifetime is left. If replicas write at the same time, one of them succeeds and the others
//     use what it wrote. A deleted or damaged Secret is written again from memory.
//   - The MutatingWebhookConfiguration has the authorities of the Secret in `caBundle`. The keeper
//     writes them again if another client removes them.
//   - The server uses a new certificate only after its authority has been in `caBundle` for
//     `settle`, which gives every API server time to read it. Until then the server uses the previous one.
//
//   Keeper keeper(client, {.secret = "tessera-webhook-tls", ...}, [&](const http::TlsIdentity& one) {
//     return server.set_tls({.identity = one});
//   });
//   keeper.start();
//
// While the API server cannot be reached, the server keeps its current certificate. Use the keeper
// only on the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "http/event_loop.h"
#include "http/tls.h"
#include "kube/client.h"
#include "webhook/identities.h"

namespace tessera::webhook {

struct KeeperOptions {
  std::string namespace_name;
  std::string secret;
  std::string configuration;  // name of the MutatingWebhookConfiguration
  std::string host;           // the name by which the API server calls the webhook
  std::string manager;        // identifies this replica in the managedFields of a new Secret
  std::chrono::milliseconds lifetime{std::chrono::hours(2160)};
  std::chrono::milliseconds settle{std::chrono::minutes(1)};
  std::chrono::milliseconds check_every{std::chrono::minutes(1)};
};

class Keeper {
 public:
  // Makes the server use a certificate for new connections.
  using Serve = std::function<Status(const http::TlsIdentity&)>;

  // `client` must outlive the keeper.
  Keeper(kube::Client& client, KeeperOptions options, Serve serve);
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  void start();
  void stop();

  // Returns what the server waits for; "" once it has served a certificate that the API server
  // trusts.
  [[nodiscard]] std::string not_ready() const;

  struct Counts {
    std::uint64_t created = 0;           // certificates that this replica created
    std::uint64_t restored = 0;          // deleted or damaged Secrets that were written again
    std::uint64_t bundle_writes = 0;     // writes of caBundle
    std::uint64_t failures = 0;          // rounds that ended with an error
    std::optional<Clock::Wall> expires;  // of the certificate in use
    bool trusted = false;                // whether caBundle had all authorities at the last check
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  void run_round();
  void on_secret(const Result<kube::Reply>& reply);
  // Writes `next`; `version` is empty if there is no Secret.
  void write_secret(const std::string& version, Identities next);
  void on_written(const Result<kube::Reply>& reply, Identities next);
  // Returns the identities to write if the Secret has none: those in memory, or new ones.
  Result<Identities> replacement();
  Result<Identities> renewed(const Identities& now);
  void use(Identities identities);

  void check_bundle();
  void on_configuration(const Result<kube::Reply>& reply);
  void serve_best();
  void serve(const Identity& identity);
  void end_round();
  void fail_round(const Error& error);
  void schedule(std::chrono::milliseconds wait);
  [[nodiscard]] Clock::Wall now() const { return client_.clock().wall(); }

  kube::Client& client_;
  const KeeperOptions options_;
  const Serve serve_;
  kube::Call call_;
  http::Timer timer_;
  std::optional<Identities> held_;              // the last known content of the Secret
  std::optional<Identity> served_;              // the certificate in use
  std::optional<Clock::Steady> trusted_since_;  // since when caBundle has all authorities of held_
  bool was_trusted_ = false;                    // a served certificate was in caBundle
  unsigned conflicts_ = 0;                      // in this round
  std::string problem_;                         // the last error; "" if the last round succeeded
  Counts counts_;
};

}  // namespace tessera::webhook
