// http/tls_context.h
//
// OpenSSL contexts made from http/tls.h and remade when their files rotate. For the .cc files of this folder.
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

// Where the roots are that a client trusts when it is given no authority. OpenSSL is linked in as Debian
// built it and looks where Debian has them; where that is not there, the first of `elsewhere` is taken.
// SSL_CERT_FILE and SSL_CERT_DIR go before both.
struct SystemRoots {
  std::vector<std::string> usual;
  std::vector<std::string> elsewhere;

  static SystemRoots of_linux();
};

// Fails with kInvalid, naming the file, when the material cannot be used.
Result<TlsContext> make_client_context(const ClientTls& options,
                                       const SystemRoots& roots = SystemRoots::of_linux());
Result<TlsContext> make_server_context(const ServerTls& options);

// The context for the next connection. Kubernetes rotates certificates by swapping files below a running
// process; a look at the files before each new connection is all that it takes. While new files cannot be
// used (half written, key and certificate of different age) the last good context stays in use, and the
// fault is logged once. One thread.
class RotatingTls {
 public:
  static Result<RotatingTls> for_client(const ClientTls& options);
  static Result<RotatingTls> for_server(const ServerTls& options);

  TlsContext current();

 private:
  using Make = std::function<Result<TlsContext>()>;
  RotatingTls(TlsContext context, Make make, std::vector<std::string> files);
  static Result<RotatingTls> create(Make make, std::vector<std::string> files);

  TlsContext context_;
  Make make_;
  std::vector<std::string> files_;
  std::string stamps_;   // inode, size and time of every file of the context
  std::string problem_;  // of the files of now, if they cannot be used
};

}  // namespace tessera::http
