// http/tls_context.h
//
// OpenSSL contexts created from the settings in http/tls.h, and re-created when their files change.
// Private to the .cc files of this folder.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "http/tls.h"

struct ssl_ctx_st;

namespace tessera::http {

using TlsContext = std::shared_ptr<ssl_ctx_st>;

// Locations of the root certificates that a client trusts if no authority is configured. OpenSSL is
// linked statically and looks in the location of the system it was built on (`usual`). If that does
// not exist, the first existing file of `elsewhere` (other distributions) is used. SSL_CERT_FILE
// and SSL_CERT_DIR take precedence over both.
struct SystemRoots {
  std::vector<std::string> usual;
  std::vector<std::string> elsewhere;

  static SystemRoots of_linux();
};

// Create a context. Return kInvalid with the name of the file if a certificate or key cannot be
// used.
Result<TlsContext> make_client_context(const ClientTls& options,
                                       const SystemRoots& roots = SystemRoots::of_linux());
Result<TlsContext> make_server_context(const ServerTls& options);

// A context that follows certificate rotation. Kubernetes replaces the files under a running
// process, so current() checks them before each new connection. While new files cannot be used
// (half written, or key and certificate do not match), the last good context stays in use and the
// error is logged once. Not thread-safe.
class RotatingTls {
 public:
  static Result<RotatingTls> for_client(const ClientTls& options);
  static Result<RotatingTls> for_server(const ServerTls& options);

  // Returns the context for the next connection.
  TlsContext current();

 private:
  using Make = std::function<Result<TlsContext>()>;
  RotatingTls(TlsContext context, Make make, std::vector<std::string> files);
  static Result<RotatingTls> create(Make make, std::vector<std::string> files);

  TlsContext context_;
  Make make_;
  std::vector<std::string> files_;
  std::string stamps_;  // inode, size and time of every file when context_ was created
  std::string error_;   // the last logged reason why changed files cannot be used
};

}  // namespace tessera::http
