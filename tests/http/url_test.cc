#include "http/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace tessera::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Url, ParsesTheUrlsOfKubeconfigs) {
  const Url url = parse_url("https://10.96.0.1:6443").value();
  EXPECT_TRUE(url.tls);
  EXPECT_EQ(url.host, "10.96.0.1");
  EXPECT_EQ(url.port, 6443);
  EXPECT_EQ(url.path, "");
  EXPECT_EQ(parse_url("http://localhost").value().port, 80);
  EXPECT_EQ(parse_url("https://rancher.test/k8s/clusters/c-1/").value().path, "/k8s/clusters/c-1");
}

TEST(Url, WritesIpv6InBrackets) {
  const Url url = parse_url("https://[fd00::1]:6443").value();
  EXPECT_EQ(url.host, "fd00::1");
  EXPECT_EQ(url.authority(), "[fd00::1]:6443");
  EXPECT_EQ(url.origin(), "https://[fd00::1]:6443");
}

TEST(Url, LeavesTheDefaultPortOutOfTheHostField) {
  EXPECT_EQ(parse_url("https://a:443").value().host_field(), "a");
  EXPECT_EQ(parse_url("http://a:443").value().host_field(), "a:443");
  EXPECT_EQ(parse_url("https://a").value().authority(), "a:443");
}

TEST(Url, RejectsInvalidUrls) {
  for (const char* text :
       {"", "host", "host:6443", "https://", "https://:443", "https://a:0", "https://a:99999",
        "https://a?b=c", "https://a/#x", "https://user:secret@a", "https://a b"}) {
    const auto url = parse_url(text);
    EXPECT_FALSE(url) << text;
  }
  EXPECT_EQ(parse_url("unix:///run/x.sock").error().code(), ErrorCode::kUnsupported);
}

TEST(Url, NeverRepeatsASecretInAnError) {
  for (const char* text :
       {"https://user:secret@a", "https://user:secret@", "http://secret@a:0", "https://a/?secret"}) {
    EXPECT_THAT(parse_url(text).error().text(), Not(HasSubstr("secret"))) << text;
  }
}

struct ProxyCase {
  const char* target;
  const char* no_proxy;
  bool proxied;
};

class NoProxyTest : public ::testing::TestWithParam<ProxyCase> {};

TEST_P(NoProxyTest, DecidesLikeCurlAndGo) {
  const ProxySettings settings{"http://proxy:1", "http://proxy:2", GetParam().no_proxy};
  const auto proxy = proxy_for(parse_url(GetParam().target).value(), settings);
  ASSERT_TRUE(proxy);
  EXPECT_EQ(proxy->has_value(), GetParam().proxied)
      << GetParam().target << " with NO_PROXY=" << GetParam().no_proxy;
}

INSTANTIATE_TEST_SUITE_P(Url, NoProxyTest,
                         ::testing::Values(ProxyCase{"https://kube.test", "", true},
                                           ProxyCase{"https://kube.test", "*", false},
                                           ProxyCase{"https://kube.test", "kube.test", false},
                                           ProxyCase{"https://kube.test", "KUBE.test", false},
                                           ProxyCase{"https://a.kube.test", "kube.test", false},
                                           ProxyCase{"https://a.kube.test", ".kube.test", false},
                                           ProxyCase{"https://kube.test", ".kube.test", true},
                                           ProxyCase{"https://a.kube.test", "*.kube.test", false},
                                           ProxyCase{"https://notkube.test", "kube.test", true},
                                           ProxyCase{"https://kube.test", "other, kube.test ", false},
                                           ProxyCase{"https://kube.test:6443", "kube.test:6443", false},
                                           ProxyCase{"https://kube.test:6443", "kube.test:443", true},
                                           ProxyCase{"https://10.96.0.1", "10.96.0.0/12", false},
                                           ProxyCase{"https://10.112.0.1", "10.96.0.0/12", true},
                                           ProxyCase{"https://10.96.0.1", "10.96.0.1", false},
                                           ProxyCase{"https://10.96.0.1:6443", "10.96.0.1:6443", false},
                                           ProxyCase{"https://10.96.0.1", "6.0.1", true},
                                           ProxyCase{"https://[fd00::1]", "fd00::/8", false},
                                           ProxyCase{"https://[fd00::1]", "fd00::1", false},
                                           ProxyCase{"https://[fd00::1]", "10.0.0.0/8", true},
                                           ProxyCase{"https://localhost", "", false},
                                           ProxyCase{"https://127.0.0.1", "", false},
                                           ProxyCase{"https://[::1]", "", false},
                                           ProxyCase{"https://kube.test", ",,/,:,[]", true}));

TEST(Proxy, DiffersForHttpAndHttps) {
  const ProxySettings settings{"plain:3128", "http://user:pw@tls:3129", ""};
  const Url plain = proxy_for(parse_url("http://a").value(), settings).value().value();
  EXPECT_EQ(plain.authority(), "plain:3128");
  const Url tls = proxy_for(parse_url("https://a").value(), settings).value().value();
  EXPECT_EQ(tls.authority(), "tls:3129");
  EXPECT_EQ(tls.user, "user:pw");
}

TEST(Proxy, ErrorNamesTheVariable) {
  const Url target = parse_url("https://a").value();
  EXPECT_THAT(proxy_for(target, {"", "socks5://p:1", ""}).error().text(), HasSubstr("HTTPS_PROXY: "));
  EXPECT_EQ(proxy_for(target, {"", "https://p:1", ""}).error().code(), ErrorCode::kUnsupported);
}

TEST(Proxy, LowerCaseEnvironmentVariablesTakePrecedence) {
  ::setenv("HTTPS_PROXY", "http://upper:1", 1);
  ::setenv("https_proxy", "http://lower:1", 1);
  ::setenv("NO_PROXY", "x", 1);
  const ProxySettings settings = ProxySettings::from_environment();
  ::unsetenv("HTTPS_PROXY");
  ::unsetenv("https_proxy");
  ::unsetenv("NO_PROXY");
  EXPECT_EQ(settings.https_proxy, "http://lower:1");
  EXPECT_EQ(settings.no_proxy, "x");
}

}  // namespace
}  // namespace tessera::http
