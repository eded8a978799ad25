#include "kube_bench_server.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "kube_bench_objects.h"

namespace tessera::bench {

namespace {

using namespace std::chrono_literals;

std::vector<std::string> pages(std::size_t count, std::string (*make)(std::size_t, std::size_t)) {
  std::vector<std::string> result;
  for (std::size_t from = 0; from < count; from += kPage) {
    std::string page = fmt::format(
        R"({{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{}"{}}},"items":[)", count + 1,
        from + kPage < count ? fmt::format(R"(,"continue":"{}")", from / kPage + 1) : "");
    for (std::size_t i = from; i < std::min(from + kPage, count); ++i) {
      page += (i == from ? "" : ",") + make(i, i + 1);
    }
    result.push_back(page + "]}");
  }
  return result;
}

}  // namespace

ApiServer::ApiServer()
    : authority_("bench authority"), nodes_(pages(kNodes, node_json)), pods_(pages(kPods, pod_json)) {
  const http::PemPair identity = authority_.issue({.dns_names = {"localhost"}, .addresses = {"127.0.0.1"}});
  http::ServerTls tls;
  tls.identity.certificate_pem = identity.certificate;
  tls.identity.key_pem = identity.key;
  auto made = http::Server::create(loop_, {.tls = tls}, [this](http::Request& request, http::Reply reply) {
    answer(request, std::move(reply));
  });
  if (!made) {
    throw std::runtime_error(made.error().text());
  }
  server_.emplace(std::move(*made));
  thread_ = std::thread([this] { loop_.run(); });
}

ApiServer::~ApiServer() {
  loop_.stop();
  thread_.join();
  stream_ = {};
  server_.reset();
}

kube::ClusterAccess ApiServer::access() const {
  kube::ClusterAccess access;
  access.cluster.server = fmt::format("https://127.0.0.1:{}", server_->port());
  access.cluster.certificate_authority.data = authority_.certificate();
  return access;
}

void ApiServer::answer(http::Request& request, http::Reply reply) {
  if (request.method() == "POST") {
    reply.send({.body = R"({"kind":"Status","apiVersion":"v1","status":"Success"})"});
    return;
  }
  const std::string target(request.target());
  if (target.find("watch=1") != std::string::npos) {
    sent_ = 0;
    stream_ = reply.stream({});
    pump();
    return;
  }
  const std::size_t at = target.find("continue=");
  const auto page =
      at == std::string::npos ? 0 : static_cast<std::size_t>(std::atoi(target.c_str() + at + 9));
  reply.send({.body = (target.find("/nodes") != std::string::npos ? nodes_ : pods_).at(page)});
}

// Sends events as fast as the client reads them.
void ApiServer::pump() {
  while (sent_ < kEvents && stream_.backlog() < (2U << 20U)) {
    if (!stream_.write(fmt::format("{{\"type\":\"MODIFIED\",\"object\":{}}}\n",
                                   pod_json(sent_ % kPods, kPods + 10 + sent_)))) {
      return;
    }
    ++sent_;
  }
  if (sent_ < kEvents) {
    timer_ = loop_.after(100us, [this] { pump(); });
  }
}

}  // namespace tessera::bench
