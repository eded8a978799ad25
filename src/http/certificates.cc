#include "http/certificates.h"

#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <utility>

namespace tessera::http {
namespace {

template <class T, auto kFree>
struct Freed {
  void operator()(T* object) const { kFree(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION, X509_EXTENSION_free>>;
using Number = std::unique_ptr<BIGNUM, Freed<BIGNUM, BN_free>>;
using Store = std::unique_ptr<X509_STORE, Freed<X509_STORE, X509_STORE_free>>;
using Verification = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX, X509_STORE_CTX_free>>;
struct FreedBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, FreedBio>;

// Limit for the texts that are read. Certificates and keys are a few KB.
constexpr std::size_t kMaxPemBytes = 1U << 20U;

// Returns an error with the reason that OpenSSL reports, and empties OpenSSL's list of errors.
tl::unexpected<Error> failed(ErrorCode code, const std::string& what) {
  const unsigned long number = ERR_get_error();
  const char* reason = number == 0 ? nullptr : ERR_reason_error_string(number);
  ERR_clear_error();
  return fail(code, reason == nullptr ? what : fmt::format("{}: {}", what, reason));
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Bio bio_of(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(std::min(text.size(), kMaxPemBytes))));
}

Certificate next_certificate(BIO* bio) {
  return Certificate(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr));
}

// Without this callback, OpenSSL would ask for the password of an encrypted key on the terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) {
  return -1;
}

Result<Certificate> read_certificate(std::string_view pem) {
  Certificate certificate = next_certificate(bio_of(pem).get());
  if (certificate == nullptr) {
    return failed(ErrorCode::kInvalid, "the certificate is unreadable");
  }
  return certificate;
}

Result<Key> read_key(std::string_view pem) {
  Key key(PEM_read_bio_PrivateKey(bio_of(pem).get(), nullptr, no_password, nullptr));
  if (key == nullptr) {
    return failed(ErrorCode::kInvalid, "the private key is unreadable");
  }
  return key;
}

Result<PemPair> to_pem(X509* certificate, EVP_PKEY* key) {
  const Bio certificate_bio(BIO_new(BIO_s_mem()));
  const Bio key_bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate_bio.get(), certificate) != 1 ||
      PEM_write_bio_PrivateKey(key_bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return failed(ErrorCode::kInternal, "OpenSSL cannot write a certificate");
  }
  return PemPair{.certificate = text_of(certificate_bio.get()), .key = text_of(key_bio.get())};
}

bool add_name(X509_NAME* name, const char* field, const std::string& value) {
  return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

bool set_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return false;
  }
  bytes[0] &= 0x7FU;  // a serial number is positive
  const Number number(BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  return BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Returns a certificate without issuer, extensions and signature.
Result<Certificate> unsigned_certificate(const NewCertificate& wanted, EVP_PKEY* key) {
  Certificate certificate(X509_new());
  bool good = certificate != nullptr && X509_set_version(certificate.get(), 2) == 1 &&
              set_serial(certificate.get()) &&
              ASN1_TIME_set(X509_getm_notBefore(certificate.get()),
                            Clock::Wall::clock::to_time_t(wanted.valid_from)) != nullptr &&
              ASN1_TIME_set(X509_getm_notAfter(certificate.get()),
                            Clock::Wall::clock::to_time_t(wanted.valid_to)) != nullptr &&
              X509_set_pubkey(certificate.get(), key) == 1;
  for (const std::string& organization : wanted.organizations) {
    good = good && add_name(X509_get_subject_name(certificate.get()), "O", organization);
  }
  if (!good || !add_name(X509_get_subject_name(certificate.get()), "CN", wanted.common_name)) {
    return failed(ErrorCode::kInvalid, fmt::format("cannot create the certificate {}", wanted.common_name));
  }
  return certificate;
}

Result<Key> new_key() {
  Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) {
    return failed(ErrorCode::kInternal, "OpenSSL cannot create a key");
  }
  return key;
}

std::string alternative_names(const NewCertificate& wanted) {
  std::string names;
  for (const std::string& name : wanted.dns_names) {
    names += (names.empty() ? "DNS:" : ",DNS:") + name;
  }
  for (const std::string& address : wanted.addresses) {
    names += (names.empty() ? "IP:" : ",IP:") + address;
  }
  return names;
}

Result<Clock::Wall> to_wall(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) {
    return failed(ErrorCode::kInvalid, "the certificate has an unreadable time");
  }
  // Certificates may be valid until the year 9999. A time point ends in 2262.
  constexpr std::time_t kLatest = 9'000'000'000;  // in the year 2255
  return Clock::Wall::clock::from_time_t(std::clamp<std::time_t>(::timegm(&parts), -kLatest, kLatest));
}

}  // namespace

Result<PemPair> create_authority(const NewCertificate& wanted) {
  const Key key = TRY(new_key());
  const Certificate certificate = TRY(unsigned_certificate(wanted, key.get()));
  X509* own = certificate.get();
  const bool good = X509_set_issuer_name(own, X509_get_subject_name(own)) == 1 &&
                    add_extension(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                    add_extension(own, own, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                    add_extension(own, own, NID_subject_key_identifier, "hash") &&
                    X509_sign(own, key.get(), EVP_sha256()) != 0;
  if (!good) {
    return failed(ErrorCode::kInvalid, fmt::format("cannot create the authority {}", wanted.common_name));
  }
  return to_pem(own, key.get());
}

Result<PemPair> issue_certificate(const PemPair& authority, const NewCertificate& wanted) {
  const Certificate issuer = TRY(read_certificate(authority.certificate));
  const Key issuer_key = TRY(read_key(authority.key));
  const Key key = TRY(new_key());
  const Certificate certificate = TRY(unsigned_certificate(wanted, key.get()));
  X509* own = certificate.get();
  const std::string names = alternative_names(wanted);
  const bool good = X509_set_issuer_name(own, X509_get_subject_name(issuer.get())) == 1 &&
                    add_extension(own, issuer.get(), NID_basic_constraints, "critical,CA:FALSE") &&
                    add_extension(own, issuer.get(), NID_key_usage, "critical,digitalSignature") &&
                    add_extension(own, issuer.get(), NID_ext_key_usage, wanted.usage) &&
                    add_extension(own, issuer.get(), NID_authority_key_identifier, "keyid") &&
                    (names.empty() || add_extension(own, issuer.get(), NID_subject_alt_name, names)) &&
                    X509_sign(own, issuer_key.get(), EVP_sha256()) != 0;
  if (!good) {
    return failed(ErrorCode::kInvalid, fmt::format("cannot create the certificate {}", wanted.common_name));
  }
  return to_pem(own, key.get());
}

Result<Validity> certificate_validity(std::string_view pem) {
  const Certificate certificate = TRY(read_certificate(pem));
  return Validity{.from = TRY(to_wall(X509_get0_notBefore(certificate.get()))),
                  .to = TRY(to_wall(X509_get0_notAfter(certificate.get())))};
}

Status check_certificate(const PemPair& pair, std::string_view authorities, const std::string& dns_name) {
  const Certificate certificate = TRY(read_certificate(pair.certificate));
  const Key key = TRY(read_key(pair.key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return failed(ErrorCode::kInvalid, "the private key does not belong to the certificate");
  }
  if (X509_check_host(certificate.get(), dns_name.data(), dns_name.size(), 0, nullptr) != 1) {
    return fail(ErrorCode::kInvalid, fmt::format("the certificate is not for {}", dns_name));
  }
  const Store store(X509_STORE_new());
  const Bio bio = bio_of(authorities);
  while (const Certificate authority = next_certificate(bio.get())) {
    X509_STORE_add_cert(store.get(), authority.get());
  }
  ERR_clear_error();  // OpenSSL reports the end of the text as an error
  const Verification verification(X509_STORE_CTX_new());
  if (verification == nullptr ||
      X509_STORE_CTX_init(verification.get(), store.get(), certificate.get(), nullptr) != 1) {
    return failed(ErrorCode::kInternal, "OpenSSL cannot verify a certificate");
  }
  X509_STORE_CTX_set_flags(verification.get(), X509_V_FLAG_NO_CHECK_TIME);
  X509_STORE_CTX_set_purpose(verification.get(), X509_PURPOSE_SSL_SERVER);
  if (X509_verify_cert(verification.get()) != 1) {
    return fail(ErrorCode::kInvalid,
                fmt::format("the certificate is not signed by the authority: {}",
                            X509_verify_cert_error_string(X509_STORE_CTX_get_error(verification.get()))));
  }
  return {};
}

}  // namespace tessera::http
