// Generates certificates for tests: an authority, and the certificates that it signs.
//
//   TestAuthority ca("tessera test");
//   PemPair server = ca.issue({.common_name = "server", .addresses = {"127.0.0.1"}});
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace tessera::http {

struct PemPair {
  std::string certificate;
  std::string key;
};

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
  ~TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  [[nodiscard]] const std::string& certificate() const { return pem_; }
  [[nodiscard]] PemPair issue(const CertificateSpec& spec) const;

 private:
  struct Keys;
  std::unique_ptr<Keys> keys_;
  std::string pem_;
};

}  // namespace tessera::http
