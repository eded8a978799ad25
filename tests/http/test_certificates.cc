#include "test_certificates.h"

namespace tessera::http {
namespace {

NewCertificate to_new(const CertificateSpec& spec) {
  const Clock::Wall now = Clock::real().wall();
  return {.common_name = spec.common_name,
          .organizations = spec.organizations,
          .dns_names = spec.dns_names,
          .addresses = spec.addresses,
          .usage = "serverAuth,clientAuth",
          .valid_from = now + std::chrono::seconds(spec.valid_from_seconds),
          .valid_to = now + std::chrono::seconds(spec.valid_to_seconds)};
}

}  // namespace

TestAuthority::TestAuthority(const std::string& common_name)
    : pair_(create_authority(to_new({.common_name = common_name})).value()) {}

PemPair TestAuthority::issue(const CertificateSpec& spec) const {
  return issue_certificate(pair_, to_new(spec)).value();
}

}  // namespace tessera::http
