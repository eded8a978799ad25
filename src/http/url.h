// http/url.h
//
// Where to connect to: the base of an API server, or a proxy; and when to go through one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::http {

struct Url {
  bool tls = false;
  std::string host = {};  // a name or an address; IPv6 without its brackets
  std::uint16_t port = 0;
  std::string path = {};  // "" or "/prefix", never with a slash at the end
  std::string user = {};  // "name:password" of a proxy, percent-decoded; never logged

  // "https://host:6443" with no user in it.
  [[nodiscard]] std::string origin() const;
  // "host:6443", for CONNECT and messages; an IPv6 address stands in brackets.
  [[nodiscard]] std::string authority() const;
  // What the Host field says: the authority, without the port where it is the scheme's own.
  [[nodiscard]] std::string host_field() const;
};

// "http(s)://host[:port][/path]"; a query or a fragment is an error, and so is a user unless `allow_user`.
Result<Url> parse_url(std::string_view text, bool allow_user = false);

// The environment's wish to go through a proxy, as curl and Go read it.
struct ProxySettings {
  std::string http_proxy = {};
  std::string https_proxy = {};
  std::string no_proxy = {};

  // HTTP_PROXY, HTTPS_PROXY, NO_PROXY, or the same in small letters, which win. Call it before threads start.
  static ProxySettings from_environment();
};

// The proxy for `target`, or none. NO_PROXY is a comma list of "*", host names (which also stand for what is
// below them; a leading dot for that alone), addresses, CIDR ranges, each with ":port" if wanted. Loopback
// never goes through a proxy. Fails when the proxy's URL is wrong or of a kind we do not speak.
Result<std::optional<Url>> proxy_for(const Url& target, const ProxySettings& settings);

}  // namespace tessera::http
