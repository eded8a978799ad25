// http/url.h
//
// URLs of servers and proxies, and the rules for when to use a proxy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::http {

struct Url {
  bool tls = false;
  std::string host = {};  // a name or an address; IPv6 without brackets
  std::uint16_t port = 0;
  std::string path = {};  // "" or "/prefix", without a trailing slash
  std::string user = {};  // "name:password" of a proxy, percent-decoded; never logged

  // "https://host:6443", without the user.
  [[nodiscard]] std::string origin() const;
  // "host:6443", for CONNECT and for messages. An IPv6 address is in brackets.
  [[nodiscard]] std::string authority() const;
  // Value of the Host header: the authority, without the port if it is the default of the scheme.
  [[nodiscard]] std::string host_field() const;
};

// Parses "http(s)://host[:port][/path]". Returns kInvalid for a query or a fragment, and for a user
// unless `allow_user` is set. Returns kUnsupported for other schemes.
Result<Url> parse_url(std::string_view text, bool allow_user = false);

// Proxy settings from the environment, interpreted as curl and Go do.
struct ProxySettings {
  std::string http_proxy = {};
  std::string https_proxy = {};
  std::string no_proxy = {};

  // Reads HTTP_PROXY, HTTPS_PROXY and NO_PROXY. The lower-case variables take precedence. Call this
  // before other threads start.
  static ProxySettings from_environment();
};

// Returns the proxy for `target`. Returns nullopt if the target is reached directly: no proxy is
// set for its scheme, it is a loopback address, or it matches NO_PROXY. Returns kInvalid if the
// proxy URL cannot be parsed, and kUnsupported if it is not a plain http proxy.
//
// NO_PROXY is a comma-separated list of "*", host names, addresses and CIDR ranges. Names and
// addresses may have a ":port". A host name also matches its subdomains. A name with a leading dot
// matches only the subdomains.
Result<std::optional<Url>> proxy_for(const Url& target, const ProxySettings& settings);

}  // namespace tessera::http
