#include "test_certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <array>
#include <stdexcept>

namespace tessera::http {
namespace {

using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
using Certificate = std::unique_ptr<X509, void (*)(X509*)>;
using Bio = std::unique_ptr<BIO, int (*)(BIO*)>;

Key new_key() {
  Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  if (key == nullptr) {
    throw std::runtime_error("OpenSSL cannot generate a key");
  }
  return key;
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string pem_of(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(bio.get(), certificate);
  return text_of(bio.get());
}

std::string pem_of(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return text_of(bio.get());
}

void add_entry(X509_NAME* name, const char* field, const std::string& value) {
  X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(value.data()),
                             static_cast<int>(value.size()), -1, 0);
}

void add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr) {
    throw std::runtime_error("OpenSSL rejected the extension " + value);
  }
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

Certificate blank(const CertificateSpec& spec, EVP_PKEY* key) {
  Certificate certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  std::array<unsigned char, 8> serial{};
  RAND_bytes(serial.data(), static_cast<int>(serial.size()));
  serial[0] &= 0x7FU;
  BIGNUM* number = BN_bin2bn(serial.data(), static_cast<int>(serial.size()), nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate.get()));
  BN_free(number);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), spec.valid_from_seconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), spec.valid_to_seconds);
  X509_NAME* name = X509_get_subject_name(certificate.get());
  for (const std::string& organization : spec.organizations) {
    add_entry(name, "O", organization);
  }
  add_entry(name, "CN", spec.common_name);
  X509_set_pubkey(certificate.get(), key);
  return certificate;
}

}  // namespace

struct TestAuthority::Keys {
  Key key;
  Certificate certificate;
};

TestAuthority::TestAuthority(const std::string& common_name) {
  Key key = new_key();
  Certificate certificate = blank({.common_name = common_name}, key.get());
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  add_extension(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  add_extension(certificate.get(), certificate.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(certificate.get(), certificate.get(), NID_subject_key_identifier, "hash");
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  pem_ = pem_of(certificate.get());
  keys_ = std::make_unique<Keys>(Keys{std::move(key), std::move(certificate)});
}

TestAuthority::~TestAuthority() = default;

PemPair TestAuthority::issue(const CertificateSpec& spec) const {
  const Key key = new_key();
  const Certificate certificate = blank(spec, key.get());
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(keys_->certificate.get()));
  std::string names;
  for (const std::string& name : spec.dns_names) {
    names += (names.empty() ? "DNS:" : ",DNS:") + name;
  }
  for (const std::string& address : spec.addresses) {
    names += (names.empty() ? "IP:" : ",IP:") + address;
  }
  if (!names.empty()) {
    add_extension(certificate.get(), keys_->certificate.get(), NID_subject_alt_name, names);
  }
  add_extension(certificate.get(), keys_->certificate.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  X509_sign(certificate.get(), keys_->key.get(), EVP_sha256());
  return {pem_of(certificate.get()), pem_of(key.get())};
}

}  // namespace tessera::http
