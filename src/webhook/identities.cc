#include "webhook/identities.h"

#include <boost/json.hpp>
#include <utility>

#include "base/json_reader.h"
#include "kube/base64.h"

namespace tessera::webhook {

namespace {

// How long ago a new certificate became valid.
constexpr std::chrono::hours kBackdate{24};

// The names of an identity's entries in the Secret.
struct Entries {
  const char* certificate;
  const char* key;
  const char* authority;
};
// The current names are those that cert-manager and kubectl use.
constexpr Entries kCurrent{.certificate = "tls.crt", .key = "tls.key", .authority = "ca.crt"};
constexpr Entries kPrevious{
    .certificate = "previous.crt", .key = "previous.key", .authority = "previous-ca.crt"};

Result<Identity> read_identity(const JsonReader& data, const Entries& entries, const std::string& host) {
  const auto entry = [&](const char* name) -> Result<std::string> {
    return with_context(kube::decode_base64(TRY(data.text(name))), name);
  };
  Identity identity;
  identity.server.certificate = TRY(entry(entries.certificate));
  identity.server.key = TRY(entry(entries.key));
  identity.authority = TRY(entry(entries.authority));
  TRY(with_context(http::check_certificate(identity.server, identity.authority, host), entries.certificate));
  identity.expires =
      TRY(with_context(http::certificate_validity(identity.server.certificate), entries.certificate)).to;
  return identity;
}

void add(boost::json::object& data, const Entries& entries, const Identity& identity) {
  data[entries.certificate] = kube::encode_base64(identity.server.certificate);
  data[entries.key] = kube::encode_base64(identity.server.key);
  data[entries.authority] = kube::encode_base64(identity.authority);
}

void add_all(boost::json::object& data, const Identities& identities) {
  add(data, kCurrent, identities.current);
  if (identities.previous) {
    add(data, kPrevious, *identities.previous);
  }
}

}  // namespace

Result<Identity> make_identity(const std::string& host, std::chrono::milliseconds lifetime, Clock::Wall now) {
  http::NewCertificate wanted{
      .common_name = "tessera-webhook authority", .valid_from = now - kBackdate, .valid_to = now + lifetime};
  const http::PemPair authority = TRY(http::create_authority(wanted));
  wanted.common_name = "tessera-webhook";  // a common name has at most 64 bytes; the host may be longer
  wanted.dns_names = {host};
  Identity identity;
  identity.server = TRY(http::issue_certificate(authority, wanted));
  identity.authority = authority.certificate;
  identity.expires = TRY(http::certificate_validity(identity.server.certificate)).to;
  return identity;
}

bool is_due(const Identity& identity, std::chrono::milliseconds lifetime, Clock::Wall now) {
  return now >= identity.expires - lifetime / 3;
}

Result<std::optional<Identities>> read_identities(const boost::json::value& secret, const std::string& host) {
  const JsonReader root(secret, "Secret");
  if (!root.has("data")) {
    return std::nullopt;
  }
  const JsonReader data = TRY(root.object("data"));
  Identities identities;
  identities.current = TRY(read_identity(data, kCurrent, host));
  if (Result<Identity> previous = read_identity(data, kPrevious, host)) {
    identities.previous = *std::move(previous);
  }
  return identities;
}

std::string new_secret(std::string_view namespace_name, std::string_view name, const Identities& identities) {
  boost::json::object data;
  add_all(data, identities);
  return boost::json::serialize(
      boost::json::object{{"apiVersion", "v1"},
                          {"kind", "Secret"},
                          {"metadata", boost::json::object{{"namespace", namespace_name}, {"name", name}}},
                          {"data", std::move(data)}});
}

std::string secret_patch(std::string_view version, const Identities& identities) {
  // null removes the entries of an earlier previous certificate.
  boost::json::object data{
      {kPrevious.certificate, nullptr}, {kPrevious.key, nullptr}, {kPrevious.authority, nullptr}};
  add_all(data, identities);
  return boost::json::serialize(boost::json::object{
      {"metadata", boost::json::object{{"resourceVersion", version}}}, {"data", std::move(data)}});
}

std::string bundle(const Identities& identities) {
  return identities.current.authority + (identities.previous ? identities.previous->authority : "");
}

bool contains_bundle(std::string_view pem, const Identities& identities) {
  return pem.find(identities.current.authority) != std::string_view::npos &&
         (!identities.previous || pem.find(identities.previous->authority) != std::string_view::npos);
}

}  // namespace tessera::webhook
