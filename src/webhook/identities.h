// webhook/identities.h
//
// The certificates of the webhook's server, as stored in the Secret that all replicas share.
// Plain values and pure functions; keeper.h does the I/O.
//
// Every serving certificate has its own authority, whose key is discarded after that one signature. So
// the Secret contains no key that could sign certificates for other servers.
// A renewal makes a new authority. The API server trusts all authorities in the Secret, so the
// certificate from before the renewal stays valid until every replica uses the new one.
#pragma once

#include <boost/json/value.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "http/certificates.h"

namespace tessera::webhook {

// A serving certificate with its key, and the authority that signed it.
struct Identity {
  http::PemPair server;
  std::string authority;  // PEM
  Clock::Wall expires{};

  friend bool operator==(const Identity&, const Identity&) = default;
};

// The content of the Secret.
struct Identities {
  Identity current;
  std::optional<Identity> previous;  // from before the last renewal

  friend bool operator==(const Identities&, const Identities&) = default;
};

// Creates a certificate for the server `host`. It is valid from one day ago, so that API servers
// whose clock is behind accept it, until `lifetime` from now.
Result<Identity> make_identity(const std::string& host, std::chrono::milliseconds lifetime, Clock::Wall now);

// Returns whether it is time to renew: at most one third of the lifetime is left.
bool is_due(const Identity& identity, std::chrono::milliseconds lifetime, Clock::Wall now);

// Reads a Secret. Returns nothing if it has no data yet. Returns kInvalid, with the name of the
// entry, if the certificate cannot serve `host`. An invalid previous certificate is left out.
Result<std::optional<Identities>> read_identities(const boost::json::value& secret, const std::string& host);

// Returns a complete Secret, for server-side apply.
std::string new_secret(std::string_view namespace_name, std::string_view name, const Identities& identities);
// Returns a JSON merge patch. The API server responds 409 to it unless the Secret is still at
// `version`.
std::string secret_patch(std::string_view version, const Identities& identities);

// Returns the authorities that the API server must trust, in PEM, the current one first.
std::string bundle(const Identities& identities);
// Returns whether `pem` contains every authority of `identities`.
bool contains_bundle(std::string_view pem, const Identities& identities);

}  // namespace tessera::webhook
