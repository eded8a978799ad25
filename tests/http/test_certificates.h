// Generates certificates for tests: an authority, and the certificates that it signs.
//
//   TestAuthority ca("tessera test");
//   PemPair server = ca.issue({.common_name = "server", .addresses = {"127.0.0.1"}});
#pragma once

#include <string>
#include <vector>

#include "http/certificates.h"

namespace tessera::http {

struct CertificateSpec {
  std::string common_name = "test";
  std::vector<std::string> organizations = {};
  std::vector<std::string> dns_names = {};
  std::vector<std::string> addresses = {};
  long valid_from_seconds = -3600;  // relative to now
  long valid_to_seconds = 3600;
};

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& common_name);
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  [[nodiscard]] const std::string& certificate() const { return pair_.certificate; }
  // Issues a certificate for servers and clients.
  [[nodiscard]] PemPair issue(const CertificateSpec& spec) const;

 private:
  PemPair pair_;
};

}  // namespace tessera::http
