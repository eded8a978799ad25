#include "cli/savings/prometheus.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/file.h"
#include "base/json_reader.h"
#include "base/strings.h"
#include "base/version.h"
#include "http/client.h"
#include "http/event_loop.h"
#include "http/url.h"
#include "kube/request.h"

namespace tessera::cli {

namespace {

constexpr std::size_t kMostBytes = 16U << 20U;  // of one answer; parsed it needs 25 times as much memory
constexpr std::size_t kMostSamples = 1'000'000;
constexpr std::size_t kMostLabels = 256;
constexpr std::size_t kMostTokenBytes = 64U << 10U;
constexpr double kMib = 1024.0 * 1024.0;

// The labels that name a pod and its GPU. A Prometheus that scrapes an exporter with honor_labels:
// false renames labels which clash with those of the target; `pod` is then the exporter's own pod.
constexpr std::string_view kLabels =
    "namespace, pod, exported_namespace, exported_pod, UUID, uuid, gpu, Hostname, instance";

std::string text_of(const std::map<std::string, std::string>& labels, const std::string& key) {
  const auto found = labels.find(key);
  return found == labels.end() ? "" : found->second;
}

// Returns "namespace/pod"; empty if the sample belongs to no pod.
std::string pod_of(const std::map<std::string, std::string>& labels) {
  const bool renamed = labels.contains("exported_pod");
  const std::string name = text_of(labels, renamed ? "exported_pod" : "pod");
  const std::string space =
      text_of(labels, labels.contains("exported_namespace") ? "exported_namespace" : "namespace");
  return name.empty() || space.empty() ? "" : space + "/" + name;
}

// Returns the UUID of the GPU, or its index on its host.
std::string gpu_of(const std::map<std::string, std::string>& labels) {
  for (const char* key : {"UUID", "uuid"}) {
    if (std::string uuid = text_of(labels, key); !uuid.empty()) {
      return uuid;
    }
  }
  return text_of(labels, "Hostname") + "#" + text_of(labels, "gpu");
}

class PrometheusQueries {
 public:
  PrometheusQueries(http::Client& client, const PrometheusOptions& options, Measurements& measured)
      : client_(client), options_(options), measured_(measured) {}

  // Returns the statistic of a metric, one sample for each pod, GPU and scraped instance.
  // `aggregate` combines the series of several containers.
  Result<std::vector<PrometheusSample>> ask(std::string_view metric, const Statistic& statistic,
                                            std::string_view aggregate = "max") {
    const std::string series =
        options_.selector.empty() ? std::string(metric) : fmt::format("{}{{{}}}", metric, options_.selector);
    const std::string query =
        fmt::format("{} by ({}) ({})", aggregate, kLabels, statistic.promql(series, options_.window));
    http::ClientRequest request;
    request.target = fmt::format("/api/v1/query?query={}&timeout={}s", kube::percent_encoded(query),
                                 std::max<std::int64_t>(options_.timeout.count() / 1000, 1));
    request.max_response_bytes = kMostBytes;
    http::ClientTimeouts limits;
    limits.first_byte = options_.timeout;
    limits.whole = options_.timeout;
    request.timeouts = limits;
    const auto response = client_.fetch(std::move(request));
    if (!response) {
      return fail(explain(response.error(), metric));
    }
    // Prometheus answers invalid and failed queries with 4xx or 5xx and the same JSON.
    auto samples = parse_query_answer(response->body.text(), measured_.warnings);
    if (!samples && response->status != 200) {
      return fail(ErrorCode::kUnavailable,
                  fmt::format("query of {}: the server responded {}{}", metric, response->status,
                              status_hint(response->status, samples.error())));
    }
    return with_context(std::move(samples), fmt::format("query of {}", metric));
  }

 private:
  static std::string status_hint(int status, const Error& error) {
    if (status == 401 || status == 403) {
      return "; pass a token with --prometheus-token-file";
    }
    if (status == 404) {
      return "; the URL must be the one below which /api/v1/query is";
    }
    return ": " + error.text();
  }

  static Error explain(const Error& error, std::string_view metric) {
    const char* hint = error.code() == ErrorCode::kExhausted
                           ? "; select fewer series with --prometheus-selector"
                       : error.code() == ErrorCode::kTimeout ? "; try a shorter --window"
                       : error.code() == ErrorCode::kDenied  ? "; pass its authority with --prometheus-ca"
                                                             : "";
    return {error.code(), fmt::format("query of {}: {}{}", metric, error.text(), hint)};
  }

  http::Client& client_;
  const PrometheusOptions& options_;
  Measurements& measured_;
};

Result<http::Client> connect(http::EventLoop& loop, const PrometheusOptions& options) {
  http::ClientOptions client;
  client.url = options.url;
  client.user_agent = "tessera/" + std::string(version());
  client.headers = {{"Accept", "application/json"}};
  client.tls.ca_file = options.ca_file;
  client.tls.insecure_skip_verify = options.insecure;
  const http::Url server = TRY(http::parse_url(options.url));
  client.proxy = TRY(http::proxy_for(server, http::ProxySettings::from_environment()));
  if (!options.token_file.empty()) {
    const std::string token = TRY(read_file(options.token_file, kMostTokenBytes));
    client.headers.emplace_back("Authorization", "Bearer " + std::string(trim(token)));
  }
  return http::Client::create(loop, std::move(client));
}

// Adds a value of a pod. If several samples are about the same pod and GPU, the largest counts.
void note_larger(std::optional<double>& into, double value) {
  into = std::max(into.value_or(0), value);
}

bool is_believable(double value, double most) {
  return value >= 0 && value <= most;
}

struct Rejected {
  std::size_t out_of_range = 0;
  std::size_t without_pod = 0;
};

Status read_dcgm(PrometheusQueries& queries, const Statistic& memory, const Statistic& utilization,
                 Measurements& measured, Rejected& rejected) {
  // The exporter reports MiB and percent.
  for (const PrometheusSample& one : TRY(queries.ask("DCGM_FI_DEV_FB_USED", memory))) {
    const std::string pod = pod_of(one.labels);
    if (pod.empty()) {
      ++rejected.without_pod;
    } else if (is_believable(one.value, Measurements::kMostMib)) {
      note_larger(measured.pods[pod][gpu_of(one.labels)].memory_mib, one.value);
    } else {
      ++rejected.out_of_range;
    }
  }
  for (const PrometheusSample& one : TRY(queries.ask("DCGM_FI_DEV_GPU_UTIL", utilization))) {
    const std::string pod = pod_of(one.labels);
    if (pod.empty()) {
      ++rejected.without_pod;
    } else if (is_believable(one.value, Measurements::kMostPercent)) {
      note_larger(measured.pods[pod][gpu_of(one.labels)].utilization_percent, one.value);
    } else {
      ++rejected.out_of_range;
    }
  }
  return {};
}

Status read_tessera(PrometheusQueries& queries, const Statistic& memory, const Statistic& utilization,
                    Measurements& measured, Rejected& rejected) {
  // By UUID. An agent that was restarted has several series for one GPU.
  std::map<std::string, std::optional<double>> busy;
  for (const PrometheusSample& one : TRY(queries.ask("tessera_gpu_utilization_ratio", utilization))) {
    if (is_believable(one.value * 100, Measurements::kMostPercent)) {
      note_larger(busy[gpu_of(one.labels)], one.value * 100);
    } else {
      ++rejected.out_of_range;
    }
  }
  // The containers of a pod use the memory of its GPU together.
  for (const PrometheusSample& one :
       TRY(queries.ask("tessera_container_gpu_memory_used_bytes", memory, "sum"))) {
    const std::string pod = pod_of(one.labels);
    if (pod.empty() || !is_believable(one.value / kMib, Measurements::kMostMib)) {
      ++(pod.empty() ? rejected.without_pod : rejected.out_of_range);
      continue;
    }
    const std::string gpu = gpu_of(one.labels);
    MeasuredGpu& into = measured.pods[pod][gpu];
    note_larger(into.memory_mib, one.value / kMib);
    if (const auto found = busy.find(gpu); found != busy.end()) {
      note_larger(into.utilization_percent, *found->second);
    }
  }
  return {};
}

}  // namespace

Result<std::vector<PrometheusSample>> parse_query_answer(std::string_view body,
                                                         std::vector<std::string>& warnings) {
  const boost::json::value document =
      TRY(with_context(parse_json(body, kMostBytes), "the answer is not that of a Prometheus server"));
  const JsonReader root(document, "answer");
  if (TRY(root.text("status")) != "success") {
    return fail(ErrorCode::kInvalid, fmt::format("the server reports: {}",
                                                 in_quotes(TRY(root.text_or("error", "no reason")), 300)));
  }
  if (root.has("warnings")) {
    for (const JsonReader& warning : TRY(root.array("warnings", 100))) {
      warnings.push_back("Prometheus: " + in_quotes(TRY(warning.as_text()), 300));
    }
  }
  const JsonReader data = TRY(root.object("data"));
  if (TRY(data.text("resultType")) != "vector") {
    return fail(ErrorCode::kInvalid, "the result is not an instant vector");
  }
  std::vector<PrometheusSample> samples;
  for (const JsonReader& entry : TRY(data.array("result", kMostSamples))) {
    PrometheusSample sample;
    const JsonReader metric = TRY(entry.object("metric"));
    for (const auto& [key, value] : TRY(metric.as_object(kMostLabels))) {
      sample.labels[key] = TRY(value.as_text());
    }
    const std::vector<JsonReader> pair = TRY(entry.array("value", 2));
    if (pair.size() != 2) {
      return fail(entry.wrong("has no pair of time and value"));
    }
    const std::string text = TRY(pair[1].as_text());
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, sample.value);
    if (parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(sample.value)) {
      samples.push_back(std::move(sample));
    }
  }
  return samples;
}

Result<std::string> parse_window(std::string_view text) {
  bool digits = false;
  bool valid = !text.empty() && text.size() <= 16;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    valid = valid && (digit || (digits && std::string_view("smhdw").find(c) != std::string_view::npos));
    digits = digit;
  }
  if (!valid || digits || text.find_first_of("123456789") == std::string_view::npos) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{} is not a duration; write for example 7d, 36h or 1d12h", in_quotes(text)));
  }
  return std::string(text);
}

Result<Measurements> ask_prometheus(const PrometheusOptions& options, const Statistic& memory,
                                    const Statistic& utilization) {
  const std::string where = "--prometheus " + options.url;
  http::EventLoop loop;
  http::Client client = TRY(with_context(connect(loop, options), where));
  Measurements measured;
  PrometheusQueries queries(client, options, measured);
  Rejected rejected;
  if (options.metrics != "tessera") {
    TRY(with_context(read_dcgm(queries, memory, utilization, measured, rejected), where));
  }
  const bool dcgm = !measured.pods.empty();
  if (options.metrics == "tessera" || (options.metrics == "auto" && !dcgm)) {
    TRY(with_context(read_tessera(queries, memory, utilization, measured, rejected), where));
  }
  measured.source = fmt::format("{} over {} ({})", http::parse_url(options.url)->origin(), options.window,
                                dcgm ? "DCGM exporter" : "Tessera's agents");
  if (measured.pods.empty()) {
    measured.warnings.push_back(fmt::format(
        "Prometheus has no GPU measurements of pods{}: enable the DCGM exporter's Kubernetes labels, or "
        "check "
        "--prometheus-selector",
        rejected.without_pod > 0 ? fmt::format(" ({} samples have no pod label)", rejected.without_pod)
                                 : ""));
  }
  if (rejected.out_of_range > 0) {
    measured.warnings.push_back(fmt::format(
        "{} samples of Prometheus are ignored: they are negative or too large", rejected.out_of_range));
  }
  return measured;
}

}  // namespace tessera::cli
