#include "http/url.h"

#include <fmt/core.h>

#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <cstdlib>

#include "base/strings.h"
#include "http/headers.h"

namespace tessera::http {
namespace {

namespace ip = boost::asio::ip;

std::optional<ip::address> address_of(std::string_view text) {
  boost::system::error_code error;
  const ip::address address = ip::make_address(std::string(text), error);
  return error ? std::nullopt : std::optional(address);
}

std::string bracketed_host(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

std::uint16_t default_port(bool tls) {
  return tls ? 443 : 80;
}

std::string environment(const char* upper_case, const char* lower_case) {
  for (const char* name : {lower_case, upper_case}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') {
      return value;
    }
  }
  return {};
}

bool in_network(const ip::address& address, std::string_view cidr) {
  boost::system::error_code error;
  if (address.is_v4()) {
    const auto network = ip::make_network_v4(std::string(cidr), error);
    return !error &&
           network.canonical() == ip::network_v4(address.to_v4(), network.prefix_length()).canonical();
  }
  const auto network = ip::make_network_v6(std::string(cidr), error);
  return !error &&
         network.canonical() == ip::network_v6(address.to_v6(), network.prefix_length()).canonical();
}

bool is_subdomain(std::string_view host, std::string_view domain) {
  return host.size() > domain.size() + 1 && host[host.size() - domain.size() - 1] == '.' &&
         equals_ignoring_case(host.substr(host.size() - domain.size()), domain);
}

// Removes ":port" from an entry of NO_PROXY. Returns false if the entry names a different port.
bool strip_matching_port(std::string_view& entry, std::uint16_t port) {
  const std::size_t colon = entry.rfind(':');
  if (colon == std::string_view::npos || address_of(entry)) {
    return true;  // no port, or a bare IPv6 address
  }
  const auto wanted = parse_int(entry.substr(colon + 1));
  entry = entry.substr(0, colon);
  return wanted && *wanted == port;
}

bool entry_matches(std::string_view entry, const Url& target, const std::optional<ip::address>& address) {
  if (entry == "*") {
    return true;
  }
  if (entry.find('/') != std::string_view::npos) {
    return address && in_network(*address, entry);
  }
  if (!strip_matching_port(entry, target.port)) {
    return false;
  }
  if (entry.starts_with('[') && entry.ends_with(']')) {
    entry = entry.substr(1, entry.size() - 2);
  }
  if (address) {
    return address_of(entry) == address;
  }
  if (entry.starts_with("*.")) {
    entry.remove_prefix(1);
  }
  if (entry.empty()) {
    return false;
  }
  if (entry.front() == '.') {
    return is_subdomain(target.host, entry.substr(1));
  }
  return equals_ignoring_case(target.host, entry) || is_subdomain(target.host, entry);
}

bool bypasses_proxy(const Url& target, const std::string& no_proxy) {
  const auto address = address_of(target.host);
  if (equals_ignoring_case(target.host, "localhost") || (address && address->is_loopback())) {
    return true;
  }
  for (const std::string_view entry : split(no_proxy, ',')) {
    const std::string_view trimmed = trim(entry);
    if (!trimmed.empty() && entry_matches(trimmed, target, address)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string Url::authority() const {
  return bracketed_host(host) + ":" + std::to_string(port);
}

std::string Url::host_field() const {
  return port == default_port(tls) ? bracketed_host(host) : authority();
}

std::string Url::origin() const {
  return fmt::format("{}://{}", tls ? "https" : "http", host_field());
}

Result<Url> parse_url(std::string_view text, bool allow_user) {
  // The text may contain a password, so no error message repeats it.
  const auto parsed = boost::urls::parse_uri(boost::core::string_view(text.data(), text.size()));
  if (!parsed) {
    return fail(ErrorCode::kInvalid, "not a URL of the form https://host:port");
  }
  const boost::urls::url_view& view = *parsed;
  Url url;
  if (view.scheme_id() != boost::urls::scheme::https && view.scheme_id() != boost::urls::scheme::http) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the scheme of the URL is {}; only http and https are supported",
                            in_quotes(std::string_view(view.scheme()))));
  }
  url.tls = view.scheme_id() == boost::urls::scheme::https;
  url.host = view.host_address();
  // A percent-encoded host could decode to arbitrary bytes.
  if (!address_of(url.host) &&
      (url.host.empty() ||
       url.host.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-._") != std::string::npos)) {
    return fail(ErrorCode::kInvalid, "the URL has no valid host name or IP address");
  }
  if (view.has_userinfo()) {
    if (!allow_user) {
      return fail(ErrorCode::kInvalid, "the URL contains a user name, which is not allowed here");
    }
    url.user = view.user() + ":" + view.password();
  }
  url.port = default_port(url.tls);
  if (view.has_port() && !view.port().empty()) {
    // Boost 1.81's port_number() lets 99999 wrap around, so parse the text instead.
    const auto port = parse_int(std::string_view(view.port()));
    if (!port || *port < 1 || *port > 65535) {
      return fail(ErrorCode::kInvalid, "the port of the URL is not a number from 1 to 65535");
    }
    url.port = static_cast<std::uint16_t>(*port);
  }
  if (view.has_query() || view.has_fragment()) {
    return fail(ErrorCode::kInvalid, "the URL has a query or a fragment; only a path may follow the host");
  }
  url.path = std::string(view.encoded_path());
  while (!url.path.empty() && url.path.back() == '/') {
    url.path.pop_back();
  }
  return url;
}

ProxySettings ProxySettings::from_environment() {
  return {environment("HTTP_PROXY", "http_proxy"), environment("HTTPS_PROXY", "https_proxy"),
          environment("NO_PROXY", "no_proxy")};
}

Result<std::optional<Url>> proxy_for(const Url& target, const ProxySettings& settings) {
  const std::string& wanted = target.tls ? settings.https_proxy : settings.http_proxy;
  if (wanted.empty() || bypasses_proxy(target, settings.no_proxy)) {
    return std::nullopt;
  }
  const char* name = target.tls ? "HTTPS_PROXY" : "HTTP_PROXY";
  const std::string text = wanted.find("://") == std::string::npos ? "http://" + wanted : wanted;
  Url proxy = TRY(with_context(parse_url(text, /*allow_user=*/true), name));
  if (proxy.tls) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: TLS to the proxy itself is not supported; use an http:// proxy", name));
  }
  return proxy;
}

}  // namespace tessera::http
