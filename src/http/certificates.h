// http/certificates.h
//
// Creates and checks X.509 certificates, for a server that is its own certificate authority. Keys
// are ECDSA keys on the curve P-256. Plain values without OpenSSL types.
//
//   const PemPair authority = TRY(create_authority({.common_name = "webhook", .valid_to = ...}));
//   const PemPair server = TRY(issue_certificate(authority, {.dns_names = {"a.b.svc"}, ...}));
//   TRY(check_certificate(server, authority.certificate, "a.b.svc"));
//
// Errors never quote a key. Any thread may call these functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace tessera::http {

// A certificate and its private key, in PEM.
struct PemPair {
  std::string certificate;
  std::string key;

  friend bool operator==(const PemPair&, const PemPair&) = default;
};

struct NewCertificate {
  std::string common_name;
  std::vector<std::string> organizations = {};
  std::vector<std::string> dns_names = {};
  std::vector<std::string> addresses = {};
  std::string usage = "serverAuth";  // extended key usage; ignored for an authority
  Clock::Wall valid_from = {};
  Clock::Wall valid_to = {};
};

// Creates a key and a certificate that signs itself and may sign others.
Result<PemPair> create_authority(const NewCertificate& wanted);

// Creates a key and a certificate that `authority` signs. Returns kInvalid if `authority` cannot be
// used.
Result<PemPair> issue_certificate(const PemPair& authority, const NewCertificate& wanted);

struct Validity {
  Clock::Wall from;
  Clock::Wall to;
};

// Returns the validity of the first certificate in `pem`.
Result<Validity> certificate_validity(std::string_view pem);

// Returns an error if the key does not belong to the certificate, if no authority in `authorities`
// signed it, or if it is not for `dns_name`. Does not check the validity.
Status check_certificate(const PemPair& pair, std::string_view authorities, const std::string& dns_name);

}  // namespace tessera::http
