// Turns the options of `tessera savings` into rules, reads the cluster and makes the report.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "alloc/units.h"
#include "base/file.h"
#include "base/strings.h"
#include "cli/cluster/cluster_ledger.h"
#include "cli/savings/savings.h"

namespace tessera::cli {

namespace {

constexpr double kMostPrice = 1'000'000;
constexpr std::size_t kMostCsvBytes = 256U << 20U;
constexpr std::int64_t kMostSeconds = std::int64_t{10} * 365 * 24 * 3600;

Result<double> parse_price(std::string_view text) {
  const std::string_view digits = trim(text);
  const char* const end = digits.data() + digits.size();
  double price = 0;
  const auto parsed = std::from_chars(digits.data(), end, price, std::chars_format::fixed);
  const bool in_range = price >= 0 && price <= kMostPrice;
  if (parsed.ec != std::errc() || parsed.ptr != end || !in_range) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{} is not a price per GPU and hour; write for example 2.5 or "
                            "A100=3.1,T4=0.4",
                            in_quotes(text)));
  }
  return price;
}

// Parses a comma list of MODEL=VALUE and VALUE.
template <class Parse>
Result<ByModel> parse_by_model(std::string_view text, Parse parse) {
  ByModel numbers;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t equal = part.rfind('=');
    if (equal == std::string_view::npos) {
      if (numbers.others) {
        return fail(ErrorCode::kInvalid,
                    fmt::format("{}: only one value may have no model", in_quotes(text)));
      }
      numbers.others = static_cast<double>(TRY(parse(part)));
      continue;
    }
    const std::string_view model = trim(part.substr(0, equal));
    if (model.empty()) {
      return fail(ErrorCode::kInvalid, fmt::format("{} has no model before the =", in_quotes(part)));
    }
    const std::string words = alloc::model_words(model);
    if (std::ranges::any_of(numbers.models,
                            [&](const auto& other) { return alloc::model_words(other.first) == words; })) {
      return fail(ErrorCode::kInvalid, fmt::format("{} has two values for {}", in_quotes(text), model));
    }
    numbers.models.emplace_back(model, static_cast<double>(TRY(parse(part.substr(equal + 1)))));
  }
  return numbers;
}

std::vector<std::string> parse_list(std::string_view text) {
  std::vector<std::string> list;
  for (const std::string_view part : split(text, ',')) {
    if (!trim(part).empty()) {
      list.emplace_back(trim(part));
    }
  }
  return list;
}

Result<Measurements> measure(const SavingsOptions& options, const SavingsView& view) {
  if (!options.prometheus.url.empty()) {
    return ask_prometheus(options.prometheus, view.memory, view.utilization);
  }
  if (options.usage.empty()) {
    return Measurements{};
  }
  const std::string csv = TRY(with_context(read_file(options.usage, kMostCsvBytes), "--usage"));
  Measurements measured =
      TRY(with_context(parse_usage_csv(csv, view.memory, view.utilization), "--usage " + options.usage));
  measured.source = options.usage == "-" ? "standard input" : options.usage;
  if (measured.pods.empty()) {
    measured.warnings.push_back(measured.source + " has no rows");
  }
  return measured;
}

}  // namespace

Result<ByModel> parse_prices(std::string_view text) {
  return parse_by_model(text, parse_price);
}

Result<ByModel> parse_gpu_memory(std::string_view text) {
  return parse_by_model(text, [](std::string_view amount) -> Result<std::int64_t> {
    const std::int64_t mib = TRY(parse_mib(amount));
    if (mib == 0) {
      return fail(ErrorCode::kInvalid, "a GPU needs memory; write for example 24GiB or T4=15GiB");
    }
    return mib;
  });
}

Result<std::string> parse_currency(std::string_view text) {
  if (trim(text).empty()) {
    return fail(ErrorCode::kInvalid, "a currency needs a name, for example EUR");
  }
  return std::string(trim(text));
}

Status check_namespaces(const SavingsOptions& options) {
  for (const std::string& name : options.namespaces) {
    if (std::ranges::find(options.excluded_namespaces, name) != options.excluded_namespaces.end()) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("--exclude-namespace: {} is also in --namespace; no pod of it could share",
                              in_quotes(name)));
    }
  }
  return {};
}

Result<std::vector<alloc::Policy>> parse_share_policies(std::string_view text) {
  std::vector<alloc::Policy> policies;
  for (const std::string_view part : split(text, ',')) {
    const auto policy = alloc::parse_policy(trim(part));
    if (!policy || !alloc::is_share_policy(*policy)) {
      return fail(
          ErrorCode::kInvalid,
          fmt::format("{} is not a policy for shares; write binpack, spread or fgd, or several with commas",
                      in_quotes(part)));
    }
    if (std::ranges::find(policies, *policy) == policies.end()) {
      policies.push_back(*policy);
    }
  }
  return policies;
}

Result<std::int64_t> parse_mib(std::string_view text) {
  const std::string_view amount = trim(text);
  if (amount == "0") {
    return 0;
  }
  const auto unit = alloc::Unit::parse(amount);
  if (!unit || amount.empty() || amount.front() < '0' || amount.front() > '9') {
    return fail(
        ErrorCode::kInvalid,
        fmt::format("{} is not an amount of memory; write for example 512MiB or 1GiB", in_quotes(text)));
  }
  return unit->in_mib();
}

Result<std::int64_t> parse_duration_s(std::string_view text) {
  if (text == "0") {
    return 0;
  }
  const std::string checked = TRY(parse_window(text));
  std::int64_t seconds = 0;
  std::int64_t number = 0;
  for (const char c : checked) {
    if (c >= '0' && c <= '9') {
      number = std::min(number * 10 + (c - '0'), kMostSeconds);
      continue;
    }
    const std::int64_t factor = c == 's' ? 1 : c == 'm' ? 60 : c == 'h' ? 3600 : c == 'd' ? 86'400 : 604'800;
    seconds = std::min(seconds + std::min(number, kMostSeconds / factor) * factor, kMostSeconds);
    number = 0;
  }
  return seconds;
}

Result<SavingsRules> savings_rules(const SavingsOptions& options) {
  SavingsRules rules;
  rules.policies = TRY(with_context(parse_share_policies(options.policies), "--policy"));
  rules.headroom_percent = options.headroom;
  rules.reserve_mib = TRY(with_context(parse_mib(options.reserve), "--reserve"));
  rules.max_utilization = options.max_utilization;
  rules.gpu_utilization = options.gpu_utilization;
  rules.ignore_utilization = options.ignore_utilization;
  rules.idle_utilization = options.idle;
  rules.namespaces = options.namespaces;
  rules.excluded_namespaces = options.excluded_namespaces;
  rules.selector = TRY(LabelSelector::parse(options.selector));
  rules.min_age_s = TRY(with_context(parse_duration_s(options.min_age), "--min-age"));
  // A file of measurements says nothing about the time since the pods started.
  if (!options.prometheus.url.empty()) {
    rules.now = Clock::real().wall();
  }
  rules.resources = parse_list(options.gpu_resources);
  rules.unshared_resources = parse_list(options.unshared_resources);
  rules.pool_label = options.pool_label;
  if (!options.gpu_memory.empty()) {
    rules.gpu_memory_mib = TRY(with_context(parse_gpu_memory(options.gpu_memory), "--gpu-memory"));
  }
  if (!options.price.empty()) {
    rules.price = TRY(with_context(parse_prices(options.price), "--price"));
  }
  return rules;
}

Result<SavingsView> make_savings(const SavingsOptions& options) {
  TRY(check_namespaces(options));
  SavingsView view;
  view.rules = TRY(savings_rules(options));
  view.memory = TRY(with_context(Statistic::parse(options.memory), "--memory"));
  view.utilization = TRY(with_context(Statistic::parse(options.utilization), "--utilization"));
  view.currency = TRY(with_context(parse_currency(options.currency), "--currency"));
  view.details = options.details;
  ClusterQuery query;
  // Pods without GPUs occupy CPU and memory of the nodes.
  query.want_pod = [](const alloc::PodSpec&) { return true; };
  query.details = true;
  query.resources = resources_to_read(view.rules);
  const Cluster cluster = TRY(read_cluster(options.cluster, query));
  view.rules.unit = options.unit.empty() ? common_unit(cluster) : TRY(alloc::Unit::parse(options.unit));
  const Measurements measured = TRY(measure(options, view));
  view.report = plan_savings(cluster, measured, view.rules);
  return view;
}

}  // namespace tessera::cli
