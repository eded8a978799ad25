#include "http/tls_context.h"

#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "base/log.h"

namespace tessera::http {
namespace {

// Limit for PEM files. Certificates and keys are a few KB.
constexpr std::size_t kMaxPemBytes = 4U << 20U;

struct Pem {
  std::string text;
  std::string what;  // for messages: "certificate FILE" or "the given certificate"
};

Result<Pem> load(const std::string& text, const std::string& file, const char* what) {
  if (!text.empty()) {
    return Pem{text, std::string("the given ") + what};
  }
  return Pem{TRY(with_context(read_file(file, kMaxPemBytes), what)), fmt::format("{} {}", what, file)};
}

tl::unexpected<Error> unusable(const std::string& what) {
  const unsigned long code = ERR_get_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return fail(ErrorCode::kInvalid,
              fmt::format("{} cannot be used: {}", what, reason == nullptr ? "it has no PEM block" : reason));
}

using Bio = std::unique_ptr<BIO, int (*)(BIO*)>;
using Certificate = std::unique_ptr<X509, void (*)(X509*)>;
using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;

Bio bio_of(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}

Certificate next_certificate(BIO* bio) {
  return {PEM_read_bio_X509(bio, nullptr, nullptr, nullptr), X509_free};
}

// Without this callback, OpenSSL would ask for the password of an encrypted key on the terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) {
  return -1;
}

// Makes the context trust the certificates of `authorities`.
Status trust(SSL_CTX* context, const Pem& authorities) {
  const Bio bio = bio_of(authorities.text);
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  int count = 0;
  while (const Certificate certificate = next_certificate(bio.get())) {
    X509_STORE_add_cert(store, certificate.get());
    ++count;
  }
  if (count == 0) {
    return unusable(authorities.what);
  }
  ERR_clear_error();  // OpenSSL reports the end of the file as an error
  // Trust every certificate in the file, as Go does: a cluster's authority may be signed by another
  // one that is not in the file.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  return {};
}

// Sets the certificate chain and the key that the context presents to peers.
Status identify(SSL_CTX* context, const TlsIdentity& identity) {
  const Pem chain = TRY(load(identity.certificate_pem, identity.certificate_file, "certificate"));
  const Bio bio = bio_of(chain.text);
  const Certificate own = next_certificate(bio.get());
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) {
    return unusable(chain.what);
  }
  while (Certificate issuer = next_certificate(bio.get())) {
    if (SSL_CTX_add0_chain_cert(context, issuer.get()) == 1) {
      [[maybe_unused]] const X509* owned_by_context = issuer.release();
    }
  }
  ERR_clear_error();
  const Pem key_text = TRY(load(identity.key_pem, identity.key_file, "private key"));
  const Bio key_bio = bio_of(key_text.text);
  const Key key{PEM_read_bio_PrivateKey(key_bio.get(), nullptr, no_password, nullptr), EVP_PKEY_free};
  if (key == nullptr || SSL_CTX_use_PrivateKey(context, key.get()) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return unusable(key_text.what);
  }
  return {};
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), R_OK) == 0;
}

void trust_system(SSL_CTX* context, const SystemRoots& roots) {
  SSL_CTX_set_default_verify_paths(context);
  if (std::getenv("SSL_CERT_FILE") != nullptr || std::getenv("SSL_CERT_DIR") != nullptr ||
      std::ranges::any_of(roots.usual, exists)) {
    return;
  }
  const auto found = std::ranges::find_if(roots.elsewhere, exists);
  if (found != roots.elsewhere.end() && SSL_CTX_load_verify_file(context, found->c_str()) != 1) {
    log::warn("cannot read the system's root certificates", {{"file", *found}});
    ERR_clear_error();
  }
}

bool is_set(const TlsIdentity& identity) {
  return !identity.certificate_pem.empty() || !identity.certificate_file.empty() ||
         !identity.key_pem.empty() || !identity.key_file.empty();
}

Result<TlsContext> new_context(const SSL_METHOD* method) {
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(method), SSL_CTX_free);
  if (context == nullptr) {
    return fail(ErrorCode::kInternal, "OpenSSL cannot create a TLS context");
  }
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  // Free the buffers of idle connections. Allow partial writes, and a retry of a write from another
  // memory address.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // Read all available data with one read(2); otherwise each record costs two.
  SSL_CTX_set_read_ahead(context.get(), 1);
  return context;
}

std::string stamp(const std::vector<std::string>& files) {
  std::string stamps;
  for (const std::string& file : files) {
    struct stat info{};
    if (::stat(file.c_str(), &info) == 0) {
      stamps +=
          fmt::format("{}:{}:{}.{} ", info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    } else {
      stamps += "none ";
    }
  }
  return stamps;
}

void add_file(std::vector<std::string>& files, const std::string& pem, const std::string& file) {
  if (pem.empty() && !file.empty()) {
    files.push_back(file);
  }
}

// We support only HTTP/1.1. ALPN announces that to servers that also support HTTP/2.
constexpr unsigned char kAlpn[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

int choose_protocol(SSL* /*tls*/, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned int offered_size, void* /*data*/) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kAlpn, sizeof kAlpn, offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

SystemRoots SystemRoots::of_linux() {
  return {.usual = {X509_get_default_cert_file(), X509_get_default_cert_dir()},
          .elsewhere = {"/etc/ssl/certs/ca-certificates.crt",                   // Debian, Alpine, Arch
                        "/etc/pki/tls/certs/ca-bundle.crt",                     // RHEL, Fedora, Amazon Linux
                        "/etc/ssl/ca-bundle.pem",                               // SUSE
                        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"}};  // RHEL without the links
}

Result<TlsContext> make_client_context(const ClientTls& options, const SystemRoots& roots) {
  TlsContext context = TRY(new_context(TLS_client_method()));
  SSL_CTX_set_alpn_protos(context.get(), kAlpn, sizeof kAlpn);
  SSL_CTX_set_default_read_buffer_len(context.get(), 64U << 10U);  // several records of a long list
  if (!options.ca_pem.empty() || !options.ca_file.empty()) {
    const Pem authorities = TRY(load(options.ca_pem, options.ca_file, "certificate authority"));
    TRY(trust(context.get(), authorities));
  } else {
    trust_system(context.get(), roots);
  }
  if (is_set(options.identity)) {
    TRY(identify(context.get(), options.identity));
  }
  return context;
}

Result<TlsContext> make_server_context(const ServerTls& options) {
  TlsContext context = TRY(new_context(TLS_server_method()));
  SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  TRY(identify(context.get(), options.identity));
  if (!options.client_ca_pem.empty() || !options.client_ca_file.empty()) {
    const Pem authorities = TRY(load(options.client_ca_pem, options.client_ca_file, "client authority"));
    TRY(trust(context.get(), authorities));
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    // Resumed sessions would skip the certificate check, so disable them.
    SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(context.get(), 0);
  }
  return context;
}

RotatingTls::RotatingTls(TlsContext context, Make make, std::vector<std::string> files)
    : context_(std::move(context)), make_(std::move(make)), files_(std::move(files)) {}

Result<RotatingTls> RotatingTls::create(Make make, std::vector<std::string> files) {
  // Stamp the files before make() reads them, so that current() detects a change in between.
  std::string stamps = stamp(files);
  TlsContext context = TRY(make());
  RotatingTls tls(std::move(context), std::move(make), std::move(files));
  tls.stamps_ = std::move(stamps);
  return tls;
}

Result<RotatingTls> RotatingTls::for_client(const ClientTls& options) {
  std::vector<std::string> files;
  add_file(files, options.ca_pem, options.ca_file);
  add_file(files, options.identity.certificate_pem, options.identity.certificate_file);
  add_file(files, options.identity.key_pem, options.identity.key_file);
  return create([options] { return make_client_context(options); }, std::move(files));
}

Result<RotatingTls> RotatingTls::for_server(const ServerTls& options) {
  std::vector<std::string> files;
  add_file(files, options.identity.certificate_pem, options.identity.certificate_file);
  add_file(files, options.identity.key_pem, options.identity.key_file);
  add_file(files, options.client_ca_pem, options.client_ca_file);
  return create([options] { return make_server_context(options); }, std::move(files));
}

TlsContext RotatingTls::current() {
  std::string stamps = files_.empty() ? std::string() : stamp(files_);
  if (stamps == stamps_) {
    return context_;
  }
  Result<TlsContext> fresh = make_();
  if (fresh) {
    stamps_ = std::move(stamps);
    context_ = *std::move(fresh);
    error_.clear();
    log::info("reloaded changed TLS files", {{"first_file", files_.front()}});
  } else if (std::string error = fresh.error().text(); error != error_) {
    // stamps_ stays as it is, so each new connection tries again: the cause (permissions, for
    // example) may be fixed without a change of the files.
    error_ = std::move(error);
    log::warn("changed TLS files cannot be used; keeping the previous ones", {{"error", error_}});
  }
  return context_;
}

}  // namespace tessera::http
