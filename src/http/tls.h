// http/tls.h
//
// Who we are and whom we trust. Plain values; nothing of OpenSSL shows here.
#pragma once

#include <string>

namespace tessera::http {

// A certificate chain and its private key, PEM, as text or as files. Text wins. Files are read again for a
// new connection when they have changed. All empty: no certificate.
struct TlsIdentity {
  std::string certificate_pem = {};
  std::string key_pem = {};
  std::string certificate_file = {};
  std::string key_file = {};
};

struct ClientTls {
  // The authorities to trust, PEM. Text wins over the file; both empty: those of the machine.
  std::string ca_pem = {};
  std::string ca_file = {};
  TlsIdentity identity = {};
  // The name that the server's certificate must carry, where it is not the host of the URL.
  std::string server_name = {};
  // Speak with anybody. Only where a person asked for exactly this.
  bool insecure_skip_verify = false;
};

struct ServerTls {
  TlsIdentity identity = {};
  // Authorities of client certificates, PEM. When set, every client must show a certificate of theirs.
  std::string client_ca_pem = {};
  std::string client_ca_file = {};
};

}  // namespace tessera::http
