// Building the head of a request.
#include <algorithm>
#include <array>

#include "base/strings.h"
#include "http/client_impl.h"

namespace tessera::http {
namespace {

using namespace std::string_view_literals;

// Enough for most heads, including a token.
constexpr std::size_t kHeadBytes = 1U << 10U;

// The bytes allowed in a method and in the name of a header field (RFC 9110, 5.6.2).
constexpr std::array<bool, 256> kTokenBytes = [] {
  std::array<bool, 256> bytes{};
  for (const char c : std::string_view("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) {
    bytes[static_cast<unsigned char>(c)] = true;
  }
  return bytes;
}();

bool is_token(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return kTokenBytes[static_cast<unsigned char>(c)]; });
}

Status add_fields(const HeaderFields& fields, std::string& head) {
  for (const auto& [name, value] : fields) {
    if (!is_token(name) || !is_one_line(value)) {
      return fail(ErrorCode::kInvalid, "the header field " + in_quotes(name) +
                                           " has an invalid name or a line break in its value");
    }
    head.append(name).append(": "sv).append(value).append("\r\n"sv);
  }
  return {};
}

}  // namespace

Result<std::string> common_fields(const ClientOptions& options, const Url& url) {
  std::string fields = "Host: " + url.host_field() + "\r\nUser-Agent: " + options.user_agent +
                       "\r\nAccept-Encoding: identity\r\n";
  if (options.proxy && !url.tls) {
    fields += proxy_authorization(*options.proxy);
  }
  TRY(add_fields(options.headers, fields));
  return fields;
}

Result<std::string> Client::Impl::request_head(const ClientRequest& request) const {
  if (!is_token(request.method)) {
    return fail(ErrorCode::kInvalid, "invalid HTTP method " + in_quotes(request.method));
  }
  if (!request.target.starts_with('/') || !is_one_line(request.target) ||
      request.target.find(' ') != std::string::npos) {
    return fail(ErrorCode::kInvalid, "the request target " + in_quotes(request.target) + " is not a path");
  }
  std::string head;
  head.reserve(kHeadBytes);
  head.append(request.method).append(" "sv);
  if (options.proxy && !url.tls) {
    head += url.origin();  // a proxy for plain HTTP needs the full URL
  }
  head.append(url.path).append(request.target).append(" HTTP/1.1\r\n"sv).append(fields);
  TRY(add_fields(request.headers, head));
  if (!request.body.empty() || request.method.starts_with('P')) {
    head.append("Content-Length: "sv).append(std::to_string(request.body.size())).append("\r\n"sv);
  }
  head += "\r\n"sv;
  return head;
}

}  // namespace tessera::http
