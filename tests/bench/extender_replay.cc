#include "extender_replay.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "http/client.h"
#include "http/event_loop.h"

namespace tessera::bench {

namespace {

constexpr int kWarmUp = 20;

double status_mb(pid_t pid, const std::string& field) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  std::string word;
  while (file >> word) {
    if (word == field) {
      double kib = 0;
      file >> kib;
      return kib * 1024 / 1e6;
    }
  }
  return 0;
}

Round play(const Target& target, const std::vector<std::string>& bodies, int requests) {
  Caller caller(target.url);
  for (int i = 0; i < kWarmUp; ++i) {
    caller.call(bodies[static_cast<std::size_t>(i) % bodies.size()]);
  }
  std::vector<double> times;
  const double cpu = cpu_ms(target.pid);
  for (int i = 0; i < requests; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    caller.call(bodies[static_cast<std::size_t>(i) % bodies.size()]);
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  const double used = cpu_ms(target.pid) - cpu;
  std::ranges::sort(times);
  return {
      .p50_ms = times[times.size() / 2], .p99_ms = times[times.size() * 99 / 100], .cpu_ms = used / requests};
}

Round median(std::vector<Round> rounds) {
  const auto middle = [&](double Round::* member) {
    std::ranges::sort(rounds, {}, member);
    return rounds[rounds.size() / 2].*member;
  };
  return {
      .p50_ms = middle(&Round::p50_ms), .p99_ms = middle(&Round::p99_ms), .cpu_ms = middle(&Round::cpu_ms)};
}

}  // namespace

struct Caller::Impl {
  http::EventLoop loop;
  std::optional<http::Client> client;
  std::string target;
};

Caller::Caller(const std::string& url) : impl_(std::make_unique<Impl>()) {
  const std::size_t path = url.find('/', url.find("//") + 2);
  impl_->target = path == std::string::npos ? "/" : url.substr(path);
  Result<http::Client> client = http::Client::create(impl_->loop, {.url = url.substr(0, path)});
  if (!client) {
    throw std::runtime_error(client.error().text());
  }
  impl_->client.emplace(*std::move(client));
}

Caller::~Caller() = default;

std::string Caller::call(const std::string& body) {
  Result<http::ClientResponse> response =
      impl_->client->fetch({.method = body.empty() ? "GET" : "POST", .target = impl_->target, .body = body});
  if (!response || response->status != 200) {
    throw std::runtime_error(response ? fmt::format("status {}", response->status) : response.error().text());
  }
  return std::string(response->body.text());
}

std::vector<Round> play_interleaved(const std::vector<Target>& targets,
                                    const std::vector<std::string>& bodies, int requests, int rounds) {
  std::vector<std::vector<Round>> played(targets.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      played[i].push_back(play(targets[i], bodies, requests));
    }
  }
  std::vector<Round> medians;
  for (std::vector<Round>& each : played) {
    medians.push_back(median(std::move(each)));
  }
  return medians;
}

double cpu_ms(pid_t pid) {
  double total_ns = 0;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), error)) {
    std::ifstream file(thread.path() / "schedstat");
    double ran_ns = 0;
    file >> ran_ns;
    total_ns += ran_ns;
  }
  return total_ns / 1e6;
}

double resident_mb(pid_t pid) {
  return status_mb(pid, "VmRSS:");
}

double peak_resident_mb(pid_t pid) {
  return status_mb(pid, "VmHWM:");
}

}  // namespace tessera::bench
