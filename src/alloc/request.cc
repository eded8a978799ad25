#include "alloc/request.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "base/nearest_name.h"
#include "base/strings.h"

namespace tessera::alloc {

namespace {

constexpr std::array<std::string_view, 8> kPolicyNames = {"binpack", "spread", "fgd",         "simple",
                                                          "static",  "prim",   "best_effort", "ring"};

const std::string* find(const Annotations& annotations, std::string_view name) {
  const auto found = annotations.find(name);
  return found == annotations.end() ? nullptr : &found->second;
}

Status check_length(std::string_view text, std::string_view annotation) {
  if (text.size() > Request::kMostListBytes) {
    return fail(ErrorCode::kInvalid, fmt::format("annotation {} has {} bytes; at most {} are allowed",
                                                 annotation, text.size(), Request::kMostListBytes));
  }
  return {};
}

// Returns the names that an annotation lists, without duplicates; empty if it is absent.
Result<std::vector<std::string>> name_list(const PodSpec& pod, std::string_view name) {
  std::vector<std::string> names;
  const std::string* text = find(pod.annotations, name);
  if (text == nullptr) {
    return names;
  }
  TRY(check_length(*text, name));
  std::set<std::string_view> seen;
  for (const std::string_view part : split(*text, ',')) {
    const std::string_view entry = trim(part);
    if (entry.empty()) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("annotation {} is {}: an entry of the list is empty", name, in_quotes(*text)));
    }
    if (seen.insert(entry).second) {
      names.emplace_back(entry);
    }
  }
  if (names.size() > Request::kMostNames) {
    return fail(ErrorCode::kInvalid, fmt::format("annotation {} lists {} names; at most {} are allowed", name,
                                                 names.size(), Request::kMostNames));
  }
  std::ranges::sort(names);
  return names;
}

// Returns over how many GPUs the memory of the pod is split: from a label or an annotation.
Result<std::uint16_t> split_of(const PodSpec& pod, const ResourceNames& names) {
  const std::string* label = find(pod.labels, names.count());
  const std::string* annotation = find(pod.annotations, names.count());
  if (label != nullptr && annotation != nullptr && *label != *annotation) {
    return fail(ErrorCode::kInvalid,
                fmt::format("label {} is {} but the annotation of that name is {}; keep one", names.count(),
                            in_quotes(*label), in_quotes(*annotation)));
  }
  const std::string* text = label != nullptr ? label : annotation;
  if (text == nullptr) {
    return std::uint16_t{1};
  }
  const auto count = parse_int(*text);
  if (!count || *count < 1 || *count > 64) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{} {} is {}, not a number of GPUs from 1 to 64",
                            label != nullptr ? "label" : "annotation", names.count(), in_quotes(*text)));
  }
  return static_cast<std::uint16_t>(*count);
}

Status check_split(const Request& request, const ResourceNames& names) {
  for (const ContainerRequest& container : request.gpus.containers) {
    const auto check = [&](std::uint32_t amount, const std::string& resource) -> Status {
      if (amount % request.split != 0) {
        return fail(
            ErrorCode::kInvalid,
            fmt::format("container {}: {} is {}, which does not divide evenly over {} GPUs ({} \"{}\")",
                        in_quotes(container.name), resource, amount, request.split, names.count(),
                        request.split));
      }
      return {};
    };
    TRY(check(container.units, names.memory()));
    TRY(check(container.core_percent, names.core_percent()));
    if (container.core_percent / request.split > 100) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("container {}: {} is {}, more than the 100 of a GPU", in_quotes(container.name),
                              names.core_percent(), container.core_percent));
    }
  }
  return {};
}

Status read_policy(const PodSpec& pod, Request& request) {
  const std::string* text = find(pod.annotations, key::kPolicy);
  if (text == nullptr) {
    return {};
  }
  TRY(check_length(*text, key::kPolicy));
  // A pod with shares and whole GPUs may name one policy of each kind.
  for (const std::string_view part : split(*text, ',')) {
    const Policy policy =
        TRY(with_context(parse_policy(trim(part)), fmt::format("annotation {}", key::kPolicy)));
    std::optional<Policy>& slot = is_share_policy(policy) ? request.share_policy : request.whole_policy;
    if (slot && *slot != policy) {
      return fail(ErrorCode::kInvalid, fmt::format("annotation {} names both {} and {}; keep one",
                                                   key::kPolicy, to_string(*slot), to_string(policy)));
    }
    slot = policy;
  }
  return {};
}

Status read_placement(const PodSpec& pod, Request& request) {
  const std::string* text = find(pod.annotations, key::kPlacement);
  if (text == nullptr || *text == "one-gpu") {
    return {};
  }
  if (*text != "per-container") {
    static constexpr std::array<std::string_view, 2> kPlacements = {"one-gpu", "per-container"};
    return fail(ErrorCode::kInvalid,
                fmt::format("annotation {} is {}, not one-gpu or per-container{}", key::kPlacement,
                            in_quotes(*text), did_you_mean(*text, kPlacements)));
  }
  request.placement = Placement::kPerContainer;
  return {};
}

Status check_uuids(const Request& request) {
  for (const std::string& uuid : request.uuids) {
    if (std::ranges::binary_search(request.uuids_excluded, uuid)) {
      return fail(ErrorCode::kInvalid, fmt::format("GPU {} is in both {} and {}; remove it from one",
                                                   in_quotes(uuid), key::kGpuUuids, key::kGpuUuidsExclude));
    }
  }
  return {};
}

template <class Number>
Number clamp_to(std::uint64_t value) {
  return static_cast<Number>(std::min<std::uint64_t>(value, std::numeric_limits<Number>::max()));
}

Shape shape_of(const Request& request) {
  const GpuRequest& gpus = request.gpus;
  Shape shape;
  shape.whole = clamp_to<std::uint16_t>(gpus.whole);
  std::uint64_t units = gpus.units;
  std::uint64_t core = gpus.core_percent;
  if (request.has_several_parts()) {
    const auto largest = std::ranges::max_element(gpus.containers, {}, &ContainerRequest::units);
    units = largest->units;
    core = largest->core_percent;
  }
  if (units > 0) {
    shape.share.units = clamp_to<std::uint32_t>(units / request.split);
    shape.share.core_percent = clamp_to<std::uint16_t>(core / request.split);
    shape.share.gpus = request.split;
  }
  return shape;
}

}  // namespace

std::string_view to_string(Policy policy) {
  return kPolicyNames[static_cast<std::size_t>(policy)];
}

Result<Policy> parse_policy(std::string_view text) {
  const auto found = std::ranges::find(kPolicyNames, text);
  if (found == kPolicyNames.end()) {
    return fail(ErrorCode::kInvalid,
                fmt::format("policy {} is not one of binpack, spread, fgd (shares of GPUs), simple, static, "
                            "prim, best_effort, ring (whole GPUs){}",
                            in_quotes(text), did_you_mean(text, kPolicyNames)));
  }
  return static_cast<Policy>(found - kPolicyNames.begin());
}

Result<Request> Request::of_pod(const PodSpec& pod, const ResourceNames& names) {
  Request request;
  request.gpus = TRY(GpuRequest::of_pod(pod, names));
  request.split = TRY(split_of(pod, names));
  TRY(check_split(request, names));
  TRY(read_policy(pod, request));
  TRY(read_placement(pod, request));
  request.models = TRY(name_list(pod, key::kGpuModel));
  request.uuids = TRY(name_list(pod, key::kGpuUuids));
  request.uuids_excluded = TRY(name_list(pod, key::kGpuUuidsExclude));
  TRY(check_uuids(request));
  request.shape = shape_of(request);
  request.shape.node = NodeUse::of_pod(pod);
  return request;
}

Request Request::of_shape(const Shape& shape) {
  Request request;
  request.shape = shape;
  request.split = std::max<std::uint16_t>(shape.share.gpus, 1);
  request.gpus.units = std::uint64_t{shape.share.units} * shape.share.gpus;
  request.gpus.core_percent = std::uint64_t{shape.share.core_percent} * shape.share.gpus;
  request.gpus.whole = shape.whole;
  if (shape.share.gpus > 0 || shape.whole > 0) {
    request.gpus.containers.push_back({.name = "main",
                                       .units = clamp_to<std::uint32_t>(request.gpus.units),
                                       .core_percent = clamp_to<std::uint32_t>(request.gpus.core_percent),
                                       .whole = shape.whole});
    request.gpus.original_positions.push_back(0);
  }
  return request;
}

bool Request::has_several_parts() const {
  return placement == Placement::kPerContainer &&
         std::ranges::count_if(gpus.containers, [](const auto& container) { return container.units > 0; }) >
             1;
}

std::size_t Request::list_bytes() const {
  std::size_t bytes = 0;
  for (const auto* list : {&models, &uuids, &uuids_excluded}) {
    for (const std::string& name : *list) {
      bytes += sizeof(std::string) + name.size();
    }
  }
  return bytes;
}

std::string model_words(std::string_view name) {
  std::string words = " ";
  for (const char c : name) {
    const bool separates = c == ' ' || c == '-' || c == '_' || c == '\t';
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (!separates) {
      words.push_back(lower);
    } else if (words.back() != ' ') {
      words.push_back(' ');
    }
  }
  if (words.back() != ' ') {
    words.push_back(' ');
  }
  return words;
}

bool words_match(std::string_view words_of_model, std::string_view wanted_words) {
  return wanted_words.size() > 1 && words_of_model.find(wanted_words) != std::string_view::npos;
}

bool model_matches(std::string_view model, std::string_view wanted) {
  return words_match(model_words(model), model_words(wanted));
}

}  // namespace tessera::alloc
