// http/tls.h
//
// TLS settings: our certificate and the authorities we trust. Plain values without OpenSSL types.
#pragma once

#include <string>

namespace tessera::http {

// A certificate chain and its private key in PEM, as text or as files. Text takes precedence. Files
// that changed are re-read for the next connection. If all fields are empty, there is no
// certificate.
struct TlsIdentity {
  std::string certificate_pem = {};
  std::string key_pem = {};
  std::string certificate_file = {};
  std::string key_file = {};
};

struct ClientTls {
  // Trusted certificate authorities, PEM. Text takes precedence over the file. If both are empty,
  // the system's authorities are trusted.
  std::string ca_pem = {};
  std::string ca_file = {};
  TlsIdentity identity = {};
  // The name that the server's certificate must have. Empty: the host of the URL.
  std::string server_name = {};
  // Accept any server certificate. Set this only if the user asked for it explicitly.
  bool insecure_skip_verify = false;
};

struct ServerTls {
  TlsIdentity identity = {};
  // Authorities of client certificates, PEM. If set, every client must present a certificate signed
  // by one of them.
  std::string client_ca_pem = {};
  std::string client_ca_file = {};
};

}  // namespace tessera::http
