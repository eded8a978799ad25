#include "webhook/keeper.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "base/json_reader.h"
#include "base/log.h"
#include "kube/base64.h"
#include "kube/request.h"

namespace tessera::webhook {

namespace {

constexpr std::chrono::milliseconds kMinWait{50};
constexpr std::chrono::seconds kDeadline{10};
// After this many lost races, the next attempt waits for the next round.
constexpr unsigned kMaxConflicts = 5;
// A Secret has at most 1 MiB, and base64 adds a third.
constexpr std::size_t kMaxObjectBytes = 4U << 20U;

kube::Request with_deadline(kube::Request request) {
  request.deadline = kDeadline;
  request.max_response_bytes = kMaxObjectBytes;
  return request;
}

// Returns the names of the webhooks in `configuration` whose caBundle lacks an authority.
Result<std::vector<std::string>> distrusting(const boost::json::value& configuration,
                                             const Identities& identities) {
  constexpr std::size_t kMaxWebhooks = 64;
  std::vector<std::string> names;
  const JsonReader root(configuration, "MutatingWebhookConfiguration");
  for (const JsonReader& webhook : TRY(root.array("webhooks", kMaxWebhooks))) {
    const JsonReader client = TRY(webhook.object("clientConfig"));
    const Result<std::string> pem = kube::decode_base64(TRY(client.text_or("caBundle", "")));
    if (!pem || !contains_bundle(*pem, identities)) {
      names.push_back(TRY(webhook.text("name")));
    }
  }
  return names;
}

// A strategic merge patch finds each webhook by its name and changes nothing else.
std::string bundle_patch(const std::vector<std::string>& webhooks, const Identities& identities) {
  boost::json::array changes;
  for (const std::string& name : webhooks) {
    changes.push_back(boost::json::object{
        {"name", name},
        {"clientConfig", boost::json::object{{"caBundle", kube::encode_base64(bundle(identities))}}}});
  }
  return boost::json::serialize(boost::json::object{{"webhooks", std::move(changes)}});
}

}  // namespace

Keeper::Keeper(kube::Client& client, KeeperOptions options, Serve serve)
    : client_(client), options_(std::move(options)), serve_(std::move(serve)) {}

void Keeper::start() {
  run_round();
}

void Keeper::stop() {
  timer_.cancel();
  call_ = {};
}

std::string Keeper::not_ready() const {
  if (was_trusted_) {
    return "";
  }
  std::string missing = !held_ ? fmt::format("the Secret {} has no certificate yet", options_.secret)
                               : fmt::format(
                                     "the MutatingWebhookConfiguration {} does not trust the "
                                     "certificate yet",
                                     options_.configuration);
  return problem_.empty() ? missing : missing + ": " + problem_;
}

void Keeper::run_round() {
  conflicts_ = 0;
  call_ = client_.send(
      with_deadline(kube::get_request(kube::secret_path(options_.namespace_name, options_.secret))),
      [this](const Result<kube::Reply>& reply) { on_secret(reply); });
}

void Keeper::on_secret(const Result<kube::Reply>& reply) {
  const bool missing = !reply && reply.error().code() == ErrorCode::kNotFound;
  if (!reply && !missing) {
    fail_round(reply.error());
    return;
  }
  std::string version;
  std::string damage = missing ? "it does not exist" : "";
  std::optional<Identities> found;
  if (reply) {
    const Result<boost::json::value> secret = parse_json(reply->body.text(), kMaxObjectBytes);
    if (!secret) {
      fail_round(secret.error());
      return;
    }
    const Result<JsonReader> metadata = JsonReader(*secret, "Secret").object("metadata");
    const Result<std::string> current = metadata ? metadata->text("resourceVersion") : fail(metadata.error());
    if (!current) {
      fail_round(current.error());
      return;
    }
    version = *current;
    Result<std::optional<Identities>> read = read_identities(*secret, options_.host);
    if (read) {
      found = *std::move(read);
    } else {
      damage = read.error().text();
    }
  }
  if (found && !is_due(found->current, options_.lifetime, now())) {
    use(*std::move(found));
    return;
  }
  Result<Identities> next = found ? renewed(*found) : replacement();
  if (!next) {
    fail_round(next.error());
    return;
  }
  if (!found && (held_ || (!damage.empty() && !missing))) {
    ++counts_.restored;
    log::warn(held_ ? "the Secret has no usable certificate; writing the one in use again"
                    : "the Secret has no usable certificate; writing a new one",
              {{"secret", options_.secret}, {"reason", damage.empty() ? "it is empty" : damage}});
  }
  write_secret(version, *std::move(next));
}

Result<Identities> Keeper::renewed(const Identities& now_held) {
  Identities next{.current = TRY(make_identity(options_.host, options_.lifetime, now())),
                  .previous = std::nullopt};
  if (now_held.current.expires > now()) {
    next.previous = now_held.current;
  }
  return next;
}

Result<Identities> Keeper::replacement() {
  if (held_) {
    return is_due(held_->current, options_.lifetime, now()) ? renewed(*held_) : *held_;
  }
  return Identities{.current = TRY(make_identity(options_.host, options_.lifetime, now())),
                    .previous = std::nullopt};
}

void Keeper::write_secret(const std::string& version, Identities next) {
  const std::string path = kube::secret_path(options_.namespace_name, options_.secret);
  kube::Request request =
      version.empty() ? kube::apply_request(path, new_secret(options_.namespace_name, options_.secret, next),
                                            options_.manager)
                      : kube::patch_request_at_version(path, secret_patch(version, next));
  call_ = client_.send(with_deadline(std::move(request)),
                       [this, next = std::move(next)](const Result<kube::Reply>& reply) mutable {
                         on_written(reply, std::move(next));
                       });
}

void Keeper::on_written(const Result<kube::Reply>& reply, Identities next) {
  if (!reply && reply.error().code() == ErrorCode::kConflict && ++conflicts_ < kMaxConflicts) {
    // Another replica was faster. Use what it wrote.
    call_ = client_.send(
        with_deadline(kube::get_request(kube::secret_path(options_.namespace_name, options_.secret))),
        [this](const Result<kube::Reply>& again) { on_secret(again); });
    return;
  }
  if (!reply) {
    fail_round(reply.error());
    return;
  }
  if (!held_ || !(held_->current == next.current)) {
    ++counts_.created;
    log::info("created a certificate", {{"secret", options_.secret},
                                        {"host", options_.host},
                                        {"expires", rfc3339_seconds(next.current.expires)}});
  }
  use(std::move(next));
}

void Keeper::use(Identities identities) {
  if (held_ != identities) {
    held_ = std::move(identities);
    trusted_since_.reset();
  }
  check_bundle();
}

void Keeper::check_bundle() {
  call_ = client_.send(with_deadline(kube::get_request(kube::mutating_webhook_path(options_.configuration))),
                       [this](const Result<kube::Reply>& reply) { on_configuration(reply); });
}

void Keeper::on_configuration(const Result<kube::Reply>& reply) {
  // A server without a certificate serves what it has, trusted or not.
  serve_best();
  if (!reply) {
    fail_round(reply.error());
    return;
  }
  const Result<boost::json::value> configuration = parse_json(reply->body.text(), kMaxObjectBytes);
  const Result<std::vector<std::string>> names =
      configuration ? distrusting(*configuration, *held_) : fail(configuration.error());
  if (!names) {
    fail_round(names.error());
    return;
  }
  if (names->empty()) {
    end_round();
    return;
  }
  counts_.trusted = false;
  trusted_since_.reset();
  call_ = client_.send(
      with_deadline(kube::patch_request(kube::mutating_webhook_path(options_.configuration),
                                        bundle_patch(*names, *held_), kube::PatchKind::kStrategicMerge)),
      [this](const Result<kube::Reply>& written) {
        if (!written) {
          fail_round(written.error());
          return;
        }
        ++counts_.bundle_writes;
        log::info("wrote caBundle", {{"configuration", options_.configuration}});
        end_round();
      });
}

void Keeper::end_round() {
  if (!problem_.empty()) {
    log::info("certificates are in order again");
    problem_.clear();
  }
  counts_.trusted = true;
  if (!trusted_since_) {
    trusted_since_ = client_.clock().now();
  }
  was_trusted_ = true;
  serve_best();
  std::chrono::milliseconds wait = options_.check_every;
  if (!(served_ == held_->current)) {
    const auto left = *trusted_since_ + options_.settle - client_.clock().now();
    if (left > left.zero()) {
      wait = std::min(wait, std::chrono::ceil<std::chrono::milliseconds>(left));
    }
  }
  const auto renewal = held_->current.expires - options_.lifetime / 3 - now();
  schedule(std::min(wait, std::chrono::ceil<std::chrono::milliseconds>(renewal)));
}

void Keeper::fail_round(const Error& error) {
  ++counts_.failures;
  std::string text = error.text();
  if (text != problem_) {
    problem_ = std::move(text);
    log::warn("cannot keep the certificates up to date", {{"error", problem_}});
  }
  serve_best();
  schedule(std::min(options_.check_every, std::chrono::milliseconds(5'000)));
}

void Keeper::schedule(std::chrono::milliseconds wait) {
  timer_ = client_.loop().after(std::max(wait, kMinWait), [this] { run_round(); });
}

// Serves the current certificate if API servers trust it by now, or if there is no other.
void Keeper::serve_best() {
  if (!held_) {
    return;
  }
  const bool settled = trusted_since_ && client_.clock().now() - *trusted_since_ >= options_.settle;
  const std::optional<Identity>& previous = held_->previous;
  const bool wait = !settled && previous && previous->expires > now();
  serve(wait && !(served_ == held_->current) ? *previous : held_->current);
}

void Keeper::serve(const Identity& identity) {
  if (served_ == identity) {
    return;
  }
  const Status status =
      serve_({.certificate_pem = identity.server.certificate, .key_pem = identity.server.key});
  if (!status) {
    log::error("the server cannot use the certificate", {{"error", status.error()}});
    return;
  }
  served_ = identity;
  counts_.expires = identity.expires;
  log::info("serving a certificate", {{"expires", rfc3339_seconds(identity.expires)}});
}

}  // namespace tessera::webhook
