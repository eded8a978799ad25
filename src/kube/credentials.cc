#include "kube/credentials.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "kube/base64.h"

namespace tessera::kube {

namespace {

constexpr std::chrono::seconds kFilesGoStale(60);
// Refresh a little earlier, so that a token does not expire while a request is in flight.
constexpr std::chrono::seconds kBeforeExpiry(10);

// Rejects invalid characters, because a line break in a token would start another header.
Result<std::string> bearer(std::string_view token, const std::string& where) {
  const std::string_view bare = trim(token);
  if (bare.empty()) {
    return fail(ErrorCode::kInvalid, where + " is empty");
  }
  if (std::ranges::any_of(bare, [](char c) { return c <= ' ' || c > '~'; })) {
    return fail(ErrorCode::kInvalid, where + " contains characters that are not allowed in a token");
  }
  return fmt::format("Bearer {}", bare);
}

}  // namespace

Credentials::Credentials(ClusterAccess access, const Clock& clock, RunPlugin run_plugin)
    : access_(std::move(access)),
      clock_(clock),
      run_plugin_(run_plugin || !access_.user.exec ? std::move(run_plugin) : RunPlugin([this] {
        return run_exec_plugin(*access_.user.exec, access_.cluster, access_.user.name);
      })) {}

bool Credentials::fresh() const {
  if (!last_) {
    return false;
  }
  if (access_.user.exec) {
    return !expires_ || clock_.wall() + kBeforeExpiry < *expires_;
  }
  const bool files = !access_.user.token_file.empty() || !access_.user.client_certificate.file.empty() ||
                     !access_.user.client_key.file.empty();
  return !files || clock_.now() - read_at_ < kFilesGoStale;
}

bool Credentials::blocks() const {
  const std::lock_guard lock(mutex_);
  return access_.user.exec && !fresh();
}

Result<CredentialPtr> Credentials::current() {
  const std::lock_guard one_at_a_time(refreshing_);
  {
    const std::lock_guard lock(mutex_);
    if (fresh()) {
      return last_;
    }
  }
  auto next = refresh();
  const std::lock_guard lock(mutex_);
  if (!next && last_ && !access_.user.exec) {
    // The file may be in the middle of a replacement, or its volume briefly unavailable. The last
    // token may still be valid.
    log::warn("cannot refresh the credential; keeping the previous one",
              {{"user", access_.user.name}, {"error", next.error()}});
    read_at_ = clock_.now();
    return last_;
  }
  return next;
}

bool Credentials::refused(const Credential& refused) {
  const auto same = [](const Credential& a, const Credential& b) {
    return a.authorization == b.authorization && a.certificate_generation == b.certificate_generation;
  };
  {
    const std::lock_guard lock(mutex_);
    if (!last_ || !same(*last_, refused)) {
      return true;
    }
    if (access_.user.exec) {
      last_.reset();
      return true;
    }
  }
  const std::lock_guard one_at_a_time(refreshing_);
  const auto next = refresh();
  return next && !same(**next, refused);
}

// Requires `refreshing_`.
Result<CredentialPtr> Credentials::refresh() {
  Fetched fetched = TRY(access_.user.exec ? from_exec() : from_files());
  const std::lock_guard lock(mutex_);
  std::string both = fetched.credential.client_certificate + fetched.credential.client_key;
  if (both != certificate_) {
    certificate_ = std::move(both);
    ++certificate_generation_;
  }
  fetched.credential.certificate_generation = certificate_generation_;
  read_at_ = clock_.now();
  expires_ = fetched.expires;
  last_ = std::make_shared<const Credential>(std::move(fetched.credential));
  return last_;
}

Result<Credentials::Fetched> Credentials::from_exec() const {
  ExecCredential returned = TRY(run_plugin_());
  if (returned.expires && *returned.expires <= clock_.wall()) {
    return fail(
        ErrorCode::kDenied,
        fmt::format("user {}: exec plugin {} returned a credential that has already expired; log in again, "
                    "or correct this machine's clock",
                    in_quotes(access_.user.name), access_.user.exec->command));
  }
  Credential credential;
  if (!returned.token.empty()) {
    credential.authorization =
        TRY(bearer(returned.token, fmt::format("user {}: the token of exec plugin {}",
                                               in_quotes(access_.user.name), access_.user.exec->command)));
  }
  credential.client_certificate = std::move(returned.client_certificate);
  credential.client_key = std::move(returned.client_key);
  return Fetched{.credential = std::move(credential), .expires = returned.expires};
}

Result<Credentials::Fetched> Credentials::from_files() const {
  const User& user = access_.user;
  Credential credential;
  credential.client_certificate = TRY(with_context(user.client_certificate.read(), "client certificate"));
  credential.client_key = TRY(with_context(user.client_key.read(), "client key"));
  if (!user.username.empty()) {
    credential.authorization = "Basic " + encode_base64(user.username + ":" + user.password);
    return Fetched{.credential = std::move(credential), .expires = {}};
  }
  if (!user.token_file.empty()) {
    auto token = read_file(user.token_file, 1U << 20U);
    if (token) {
      credential.authorization = TRY(bearer(*token, "token file " + user.token_file));
      return Fetched{.credential = std::move(credential), .expires = {}};
    }
    if (user.token.empty()) {
      return fail(std::move(token).error().context("token file"));
    }
  }
  if (!user.token.empty()) {
    credential.authorization =
        TRY(bearer(user.token, fmt::format("{}: token of user {}", user.file, in_quotes(user.name))));
  }
  return Fetched{.credential = std::move(credential), .expires = {}};
}

}  // namespace tessera::kube
