// The memory of a client that lists and watches objects as large as an API server can send.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "http/server.h"
#include "kube/reflector.h"
#include "recording_sink.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TESSERA_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESSERA_SANITIZED
#endif

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kObjects = 15;
constexpr std::size_t kEvents = 4;

// Returns an object of about `mib` MiB of JSON. etcd stores a sixth of it.
std::string large_object(std::size_t number, std::size_t version, std::size_t mib) {
  std::string text = fmt::format(
      R"({{"metadata":{{"name":"p{0}","namespace":"ml","uid":"u{0}","resourceVersion":"{1}"}},"spec":{{"x":")",
      number, version);
  static const std::string kMebibyte = [] {
    std::string filler;
    while (filler.size() < 1U << 20U) {
      filler += R"(\u003c)";
    }
    return filler;
  }();
  for (std::size_t i = 0; i < mib; ++i) {
    text += kMebibyte;
  }
  return text + R"(","nodeName":"gpu-a"}})";
}

// Lists kObjects objects of 9 MiB. Then sends kEvents changes, of which one is larger than the
// limit.
void serve(http::Request& request, http::Reply reply, std::vector<http::ReplyStream>& open) {
  const std::string target(request.target());
  const auto number = [&](const std::string& name) -> std::size_t {
    const std::size_t at = target.find(name + "=");
    return at == std::string::npos ? 0 : std::stoul(target.substr(at + name.size() + 1));
  };
  if (target.find("watch=1") != std::string::npos) {
    open.push_back(reply.stream({}));
    for (std::size_t i = 0; i < kEvents; ++i) {
      open.back().write(R"({"type":"MODIFIED","object":)" + large_object(i, 200 + i, i == 2 ? 11 : 9) +
                        "}\n");
    }
    return;
  }
  const std::size_t first = number("continue");
  const std::size_t last = std::min(first + number("limit"), kObjects);
  std::string body = fmt::format(R"({{"metadata":{{"resourceVersion":"100","continue":"{}"}},"items":[)",
                                 last < kObjects ? std::to_string(last) : "");
  // A page of more than 2 objects need not be complete: no client reads it to the end.
  for (std::size_t i = first; i < std::min(last, first + 2); ++i) {
    body += (i == first ? "" : ",") + large_object(i, 1 + i, 9);
  }
  reply.send({.body = body + "]}"});
}

// Returns a value of /proc/self/status in MiB.
std::size_t memory(const std::string& name) {
  std::ifstream file("/proc/self/status");
  std::string word;
  std::size_t kib = 0;
  while (file >> word) {
    if (word == name) {
      file >> kib;
    }
  }
  return kib / 1024;
}

// The process under test. Returns by how many MiB its memory grew at most; 255 if it did not read
// everything.
int read_all(std::uint16_t port) {
  const std::size_t before = memory("VmRSS:");
  http::EventLoop loop;
  ClusterAccess access;
  access.cluster.server = "http://127.0.0.1:" + std::to_string(port);
  Client client = Client::create(loop, access, {}).value();
  RecordingSink sink;
  Reflector reflector(client, {.path = "/api/v1/pods"}, sink);
  reflector.start();
  const bool done = loop.run_until(
      [&] { return reflector.counts().lists == 1 && reflector.counts().events == kEvents; }, 60s);
  const bool all = done && reflector.objects() == kObjects && reflector.counts().failures == 0 &&
                   reflector.counts().unreadable == 1;
  return all ? static_cast<int>(std::min<std::size_t>(memory("VmHWM:") - before, 254)) : 255;
}

TEST(LargeObjects, AreListedAndWatchedWithLittleMemory) {
  int port_pipe[2];
  ASSERT_EQ(::pipe(port_pipe), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::uint16_t port = 0;
    const bool got = ::read(port_pipe[0], &port, sizeof port) == sizeof port;
    ::_exit(got ? read_all(port) : 255);
  }
  http::EventLoop loop;
  std::vector<http::ReplyStream> open;
  auto server = http::Server::create(
      loop, {.max_stream_backlog = 256U << 20U},
      [&](http::Request& request, http::Reply reply) { serve(request, std::move(reply), open); });
  ASSERT_TRUE(server) << server.error().text();
  const std::uint16_t port = server->port();
  ASSERT_EQ(::write(port_pipe[1], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  std::thread serving([&] { loop.run(); });
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  loop.call([&] { open.clear(); });
  loop.stop();
  serving.join();
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_NE(WEXITSTATUS(status), 255) << "the child did not read all objects";
#if !defined(TESSERA_SANITIZED)
  EXPECT_LT(WEXITSTATUS(status), 64) << "MiB";
#endif
}

}  // namespace
}  // namespace tessera::kube
