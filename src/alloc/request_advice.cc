#include "alloc/request_advice.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/nearest_name.h"
#include "base/strings.h"

namespace tessera::alloc {

namespace {

bool asks_for(const ContainerSpec& container, GpuResource resource) {
  return std::ranges::any_of(container.gpu_limits, [resource](const auto& limit) {
    return limit.first == resource && limit.second != Quantity();
  });
}

bool mixes(const ContainerSpec& container) {
  return container.gpu_limits.size() > 1 && asks_for(container, GpuResource::kMemory) &&
         (asks_for(container, GpuResource::kWhole) || asks_for(container, GpuResource::kCount));
}

// Limits the work for one request. No real cluster has more models.
constexpr std::size_t kMostModels = 64;
constexpr std::size_t kMostModelsListed = 8;

// Returns the names of the models that GPUs of the cluster have, sorted. Returns none if there are
// more than kMostModels.
std::vector<std::string_view> models_of(const Ledger& ledger) {
  std::vector<std::string_view> models;
  for (std::size_t id = 0; id < ledger.model_count(); ++id) {
    if (models.size() == kMostModels) {
      return {};
    }
    if (const std::string& name = ledger.model_name(static_cast<ModelId>(id)); !name.empty()) {
      models.emplace_back(name);
    }
  }
  std::ranges::sort(models);
  return models;
}

// Returns what the user may have meant: a model, or a word of a model that has a digit ("A100").
std::optional<std::string_view> similar_model(std::string_view wanted,
                                              const std::vector<std::string_view>& models) {
  std::vector<std::string_view> candidates = models;
  for (std::string_view rest : models) {
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find_first_of(" -_"), rest.size());
      const std::string_view word = rest.substr(0, end);
      if (word.find_first_of("0123456789") != std::string_view::npos) {
        candidates.push_back(word);
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return nearest_name(wanted, candidates);
}

}  // namespace

bool mixes_whole_and_shared(const PodSpec& pod) {
  return std::ranges::any_of(pod.containers, mixes);
}

std::string mixed_request_advice(const PodSpec& pod, const ResourceNames& names, Unit unit) {
  const auto found = std::ranges::find_if(pod.containers, mixes);
  const auto request = Request::of_pod(pod, names);
  if (found == pod.containers.end() || !request) {
    return "";
  }
  const auto container = std::ranges::find(request->gpus.containers, found->name, &ContainerRequest::name);
  if (container == request->gpus.containers.end()) {
    return "";
  }
  const std::string& whole = asks_for(*found, GpuResource::kWhole) ? names.whole() : names.count();
  const std::string amount = unit.amount(container->units / request->split);
  const std::string share = request->split == 1
                                ? fmt::format("{} of another GPU", amount)
                                : fmt::format("{} of each of {} other GPUs", amount, request->split);
  const std::string alone =
      request->split == 1 ? fmt::format("{} of one GPU", amount) : std::string("shared GPUs only");
  return fmt::format(
      "container {} gets {} whole GPU{} ({}) and also {} ({}); for {}, remove {}; for whole GPUs only, "
      "remove {}",
      in_quotes(container->name), container->whole, container->whole == 1 ? "" : "s", whole, share,
      names.memory(), alone, whole, names.memory());
}

std::string unknown_model_advice(const Ledger& ledger, const Request& request) {
  const std::vector<std::string_view> models = models_of(ledger);
  const auto unknown = std::ranges::find_if(request.models, [&](const std::string& wanted) {
    return std::ranges::none_of(models, [&](std::string_view model) { return model_matches(model, wanted); });
  });
  if (unknown == request.models.end() || models.empty()) {
    return "";
  }
  std::vector<std::string> listed;
  for (std::size_t i = 0; i < models.size() && i < kMostModelsListed; ++i) {
    listed.push_back(in_quotes(models[i]));
  }
  if (models.size() > kMostModelsListed) {
    listed.push_back(fmt::format("{} more", models.size() - kMostModelsListed));
  }
  const auto similar = similar_model(*unknown, models);
  return fmt::format("no GPU of the cluster is of model {}{}The cluster has {}", in_quotes(*unknown),
                     similar ? fmt::format("; did you mean {}? ", *similar) : ". ", join_words(listed));
}

}  // namespace tessera::alloc
