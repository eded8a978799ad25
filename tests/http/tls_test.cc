// Verification of servers and clients, and certificate rotation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "http/client.h"
#include "http/tls_context.h"
#include "server_fixture.h"
#include "test_certificates.h"

namespace tessera::http {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class TlsTest : public ServerTest {
 protected:
  TlsTest() : ca_("tessera test authority"), other_ca_("another authority") {}

  [[nodiscard]] ServerTls server_tls(const CertificateSpec& spec) const {
    const PemPair pair = ca_.issue(spec);
    return {.identity = {.certificate_pem = pair.certificate, .key_pem = pair.key}};
  }
  [[nodiscard]] static CertificateSpec for_loopback() {
    return {.common_name = "server", .dns_names = {"localhost"}, .addresses = {"127.0.0.1"}};
  }

  Result<ClientResponse> fetch(ClientTls tls, const std::string& host = "127.0.0.1") {
    Client client = Client::create(loop_, {.url = "https://" + host + ":" + std::to_string(server_->port()),
                                           .tls = std::move(tls)})
                        .value();
    return client.fetch({.method = "POST", .target = "/t", .body = "body"});
  }

  TestAuthority ca_;
  TestAuthority other_ca_;
};

TEST_F(TlsTest, TrustsACertificateForAnAddress) {
  serve({.tls = server_tls(for_loopback())});
  const auto response = fetch({.ca_pem = ca_.certificate()});
  ASSERT_TRUE(response) << response.error().text();
  EXPECT_EQ(response->body.text(), "POST /t body");
}

TEST_F(TlsTest, TrustsACertificateForAHostName) {
  serve({.address = "127.0.0.1", .tls = server_tls(for_loopback())});
  const auto response = fetch({.ca_pem = ca_.certificate()}, "localhost");
  EXPECT_TRUE(response) << response.error().text();
}

// A kubeconfig may contain only an intermediate authority, not the root that signed it.
TEST_F(TlsTest, TrustsAConfiguredCertificateThatAnotherAuthoritySigned) {
  const ServerTls tls = server_tls(for_loopback());
  serve({.tls = tls});
  const auto response = fetch({.ca_pem = tls.identity.certificate_pem});
  EXPECT_TRUE(response) << response.error().text();
  EXPECT_FALSE(fetch({.ca_pem = ca_.issue(for_loopback()).certificate}))
      << "trusted another certificate of the same authority";
}

TEST_F(TlsTest, RejectsAServerNameThatCannotBeVerified) {
  serve({.tls = server_tls(for_loopback())});
  const auto response = fetch({.ca_pem = ca_.certificate(), .server_name = "fe80::1%eth0"});
  ASSERT_FALSE(response);
  EXPECT_THAT(response.error().text(), HasSubstr("fe80::1%eth0"));
}

TEST_F(TlsTest, ReplacesTheCertificateOfARunningServer) {
  serve({.tls = server_tls(for_loopback())});
  const auto set = [this](const std::string& certificate, const std::string& key) {
    bool done = false;
    loop_.call([&] {
      done = server_->set_tls({.identity = {.certificate_pem = certificate, .key_pem = key}}).has_value();
    });
    return done;
  };
  const PemPair next = other_ca_.issue(for_loopback());
  EXPECT_TRUE(set(next.certificate, next.key));
  EXPECT_TRUE(fetch({.ca_pem = other_ca_.certificate()}));
  EXPECT_FALSE(fetch({.ca_pem = ca_.certificate()}));
  EXPECT_FALSE(set("x", next.key));
  EXPECT_TRUE(fetch({.ca_pem = other_ca_.certificate()})) << "an invalid certificate replaced a valid one";
}

TEST_F(TlsTest, ReadsTheAuthorityFromAFile) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/ca.crt";
  ASSERT_TRUE(write_file(file, ca_.certificate()));
  serve({.tls = server_tls(for_loopback())});
  EXPECT_TRUE(fetch({.ca_file = file}));
}

// RHEL and its derivatives have no /usr/lib/ssl, where our OpenSSL looks.
TEST_F(TlsTest, FindsTheRootCertificatesOfOtherDistributions) {
  ::unsetenv("SSL_CERT_FILE");
  ::unsetenv("SSL_CERT_DIR");
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_file(directory / "bundle.crt", ca_.certificate() + other_ca_.certificate()));
  const auto roots = [&](const std::string& usual) {
    const auto context =
        make_client_context({}, {.usual = {"/nonexistent/cert.pem", usual},
                                 .elsewhere = {directory / "missing.crt", directory / "bundle.crt"}});
    EXPECT_TRUE(context);
    return sk_X509_OBJECT_num(X509_STORE_get0_objects(SSL_CTX_get_cert_store(context->get())));
  };
  const int of_this_machine = roots(directory.path());  // found by OpenSSL itself, possibly none
  EXPECT_EQ(roots("/nonexistent/certs"), of_this_machine + 2);
  ::setenv("SSL_CERT_FILE", "/nonexistent/mine.pem", 1);
  EXPECT_EQ(roots("/nonexistent/certs"), 0) << "SSL_CERT_FILE must take precedence";
  ::unsetenv("SSL_CERT_FILE");
}

struct Distrust {
  const char* name;
  CertificateSpec spec;
  bool wrong_authority;
  const char* reason;
};

class DistrustTest : public TlsTest, public ::testing::WithParamInterface<Distrust> {};

TEST_P(DistrustTest, RejectsTheServerWithAReason) {
  serve({.tls = server_tls(GetParam().spec)});
  const auto response =
      fetch({.ca_pem = GetParam().wrong_authority ? other_ca_.certificate() : ca_.certificate()});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kDenied);
  EXPECT_THAT(response.error().text(), HasSubstr("the certificate of 127.0.0.1 was rejected"));
  EXPECT_THAT(response.error().text(), HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    TlsTest, DistrustTest,
    ::testing::Values(
        Distrust{"Expired",
                 {.addresses = {"127.0.0.1"}, .valid_from_seconds = -7200, .valid_to_seconds = -60},
                 false,
                 "certificate has expired"},
        Distrust{"NotYetValid",
                 {.addresses = {"127.0.0.1"}, .valid_from_seconds = 3600, .valid_to_seconds = 7200},
                 false,
                 "certificate is not yet valid"},
        Distrust{
            "WrongAuthority", {.addresses = {"127.0.0.1"}}, true, "unable to get local issuer certificate"},
        Distrust{"WrongAddress", {.addresses = {"127.0.0.2"}}, false, "IP address mismatch"},
        Distrust{"NameOnly", {.dns_names = {"127.0.0.1"}}, false, "IP address mismatch"},
        Distrust{"NoNames", {.common_name = "127.0.0.1"}, false, "IP address mismatch"}),
    [](const auto& tested) { return tested.param.name; });

TEST_F(TlsTest, RejectsACertificateForAnotherHostName) {
  serve({.tls = server_tls({.dns_names = {"example.test"}})});
  const auto response = fetch({.ca_pem = ca_.certificate()}, "localhost");
  ASSERT_FALSE(response);
  EXPECT_THAT(response.error().text(), HasSubstr("hostname mismatch"));
}

TEST_F(TlsTest, ExpectsTheConfiguredServerName) {
  serve({.tls = server_tls({.dns_names = {"kubernetes.default.svc"}})});
  EXPECT_TRUE(fetch({.ca_pem = ca_.certificate(), .server_name = "kubernetes.default.svc"}));
  EXPECT_FALSE(fetch({.ca_pem = ca_.certificate()}));
}

// Only the proxy resolves the host name, and the proxy credentials must not reach the server.
TEST_F(TlsTest, ReachesAServerThroughAProxyAndVerifiesIt) {
  serve({.tls = server_tls({.dns_names = {"kube.test"}})}, [](Request& request, Reply reply) {
    reply.send({.body = std::string(request.body().text()) + "|" +
                        std::string(request.headers().find("Proxy-Authorization"))});
  });
  RawListener listener;
  std::string connect_head;
  std::jthread proxy([&] {
    RawConnection client = listener.accept();
    connect_head = client.read_until("\r\n\r\n");
    RawConnection upstream = RawConnection::to(server_->port());
    client.send("HTTP/1.1 200 Connection established\r\nVia: a proxy\r\n\r\n");
    std::jthread back([&] { upstream.relay_to(client); });
    client.relay_to(upstream);
  });
  {
    Client client =
        Client::create(
            loop_,
            {.url = "https://kube.test:6443",
             .tls = {.ca_pem = ca_.certificate()},
             .proxy =
                 parse_url("http://me:secret@127.0.0.1:" + std::to_string(listener.port()), true).value()})
            .value();
    for (const char* body : {"first", "on the same connection"}) {
      const auto response = client.fetch({.method = "POST", .body = body});
      ASSERT_TRUE(response) << response.error().text();
      EXPECT_EQ(response->body.text(), std::string(body) + "|");
    }
  }
  proxy.join();
  EXPECT_THAT(connect_head, ::testing::StartsWith("CONNECT kube.test:6443 HTTP/1.1\r\n"));
}

TEST_F(TlsTest, AcceptsAnyCertificateOnlyWithInsecureSkipVerify) {
  serve({.tls = server_tls(
             {.dns_names = {"example.test"}, .valid_from_seconds = -7200, .valid_to_seconds = -60})});
  EXPECT_FALSE(fetch({}));
  EXPECT_TRUE(fetch({.insecure_skip_verify = true}));
}

TEST_F(TlsTest, ServerReadsTheClientNameFromItsCertificate) {
  ServerTls tls = server_tls(for_loopback());
  tls.client_ca_pem = ca_.certificate();
  serve({.tls = tls}, [](Request& request, Reply reply) { reply.send({.body = request.client_name()}); });
  const PemPair client = ca_.issue({.common_name = "kube-scheduler"});
  const auto response = fetch({.ca_pem = ca_.certificate(),
                               .identity = {.certificate_pem = client.certificate, .key_pem = client.key}});
  ASSERT_TRUE(response) << response.error().text();
  EXPECT_EQ(response->body.text(), "kube-scheduler");
}

TEST_F(TlsTest, ServerRejectsClientsWithoutACertificateOfItsAuthority) {
  ServerTls tls = server_tls(for_loopback());
  tls.client_ca_pem = ca_.certificate();
  serve({.tls = tls});
  EXPECT_FALSE(fetch({.ca_pem = ca_.certificate()}));
  const PemPair stranger = other_ca_.issue({.common_name = "stranger"});
  EXPECT_FALSE(fetch({.ca_pem = ca_.certificate(),
                      .identity = {.certificate_pem = stranger.certificate, .key_pem = stranger.key}}));
  EXPECT_TRUE(eventually([&] { return server_->stats().tls_failures == 2; }));
}

TEST_F(TlsTest, ServerUsesRotatedFilesForTheNextConnection) {
  const TemporaryDirectory directory;
  const std::string certificate_file = directory.path() + "/tls.crt";
  const std::string key_file = directory.path() + "/tls.key";
  const auto install = [&](const PemPair& pair) {
    ASSERT_TRUE(write_file(certificate_file, pair.certificate));
    ASSERT_TRUE(write_file(key_file, pair.key, 0600));
  };
  install(ca_.issue(for_loopback()));
  serve({.tls = ServerTls{.identity = {.certificate_file = certificate_file, .key_file = key_file}}});
  EXPECT_TRUE(fetch({.ca_pem = ca_.certificate()}));
  EXPECT_FALSE(fetch({.ca_pem = other_ca_.certificate()}));
  install(other_ca_.issue(for_loopback()));
  EXPECT_TRUE(fetch({.ca_pem = other_ca_.certificate()}));
  EXPECT_FALSE(fetch({.ca_pem = ca_.certificate()}));
}

TEST_F(TlsTest, ServerKeepsItsCertificateWhileTheNewFilesCannotBeUsed) {
  const TemporaryDirectory directory;
  const std::string certificate_file = directory.path() + "/tls.crt";
  const std::string key_file = directory.path() + "/tls.key";
  const PemPair pair = ca_.issue(for_loopback());
  ASSERT_TRUE(write_file(certificate_file, pair.certificate));
  ASSERT_TRUE(write_file(key_file, pair.key));
  serve({.tls = ServerTls{.identity = {.certificate_file = certificate_file, .key_file = key_file}}});
  ASSERT_TRUE(write_file(certificate_file, "-----BEGIN CERTIFICATE-----\nhalf"));
  EXPECT_TRUE(fetch({.ca_pem = ca_.certificate()}));
  ASSERT_TRUE(
      write_file(certificate_file, ca_.issue(for_loopback()).certificate));  // the key is still the old one
  EXPECT_TRUE(fetch({.ca_pem = ca_.certificate()}));
}

TEST_F(TlsTest, ClientUsesARotatedAuthorityForTheNextConnection) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/ca.crt";
  ASSERT_TRUE(write_file(file, other_ca_.certificate()));
  serve({.tls = server_tls(for_loopback())});
  Client client = Client::create(loop_, {.url = "https://127.0.0.1:" + std::to_string(server_->port()),
                                         .tls = {.ca_file = file}})
                      .value();
  EXPECT_FALSE(client.fetch({}));
  ASSERT_TRUE(write_file(file, ca_.certificate()));
  EXPECT_TRUE(client.fetch({}));
}

TEST_F(TlsTest, ErrorNamesTheFileThatCannotBeUsed) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/ca.crt";
  ASSERT_TRUE(write_file(file, "no certificate"));
  const auto client = Client::create(loop_, {.url = "https://127.0.0.1", .tls = {.ca_file = file}});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code(), ErrorCode::kInvalid);
  EXPECT_THAT(client.error().text(), HasSubstr(file));
}

TEST_F(TlsTest, TransfersALargeBodyInBothDirections) {
  std::string sent(5'000'000, 'x');
  for (std::size_t i = 0; i < sent.size(); i += 97) {
    sent[i] = static_cast<char>('a' + i % 26);
  }
  serve({.tls = server_tls(for_loopback())},
        [](Request& request, Reply reply) { reply.send({.body = std::string(request.body().text())}); });
  Client client = Client::create(loop_, {.url = "https://127.0.0.1:" + std::to_string(server_->port()),
                                         .tls = {.ca_pem = ca_.certificate()}})
                      .value();
  for (int i = 0; i < 2; ++i) {
    const auto response = client.fetch({.method = "POST", .body = sent});
    ASSERT_TRUE(response) << response.error().text();
    EXPECT_TRUE(response->body.text() == sent);
  }
  EXPECT_EQ(server_->stats().accepted, 1U);
}

TEST_F(TlsTest, SurvivesAPeerWithoutTls) {
  serve({.tls = server_tls(for_loopback())});
  RawConnection peer = connect();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  peer.read_all();
  EXPECT_TRUE(eventually([&] { return server_->stats().tls_failures == 1; }));
  EXPECT_TRUE(fetch({.ca_pem = ca_.certificate()}));
}

TEST_F(TlsTest, DisconnectsAPeerThatNeverFinishesItsHandshake) {
  serve({.tls = server_tls(for_loopback()), .head_timeout = 30ms});
  RawConnection peer = connect();
  peer.send("\x16\x03\x01");
  EXPECT_TRUE(peer.closed_by_peer());
}

TEST_F(TlsTest, ReturnsUnavailableIfTheServerHasNoTls) {
  serve();
  const auto response = fetch({.ca_pem = ca_.certificate()});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(response.error().text(), HasSubstr("TLS with 127.0.0.1 failed: "));
}

}  // namespace
}  // namespace tessera::http
