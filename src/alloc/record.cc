#include "alloc/record.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>

#include "alloc/names.h"
#include "base/json_reader.h"
#include "base/strings.h"

namespace tessera::alloc {

namespace {

constexpr std::size_t kMostGpus = 64;
constexpr std::string_view kIndexPrefix = "index-";

Result<GpuShare> parse_share(const JsonReader& json) {
  GpuShare share;
  share.gpu = TRY(json.text("gpu"));
  if (share.gpu.empty() || share.gpu.size() > 128) {
    return fail(json.wrong("names no GPU"));
  }
  share.whole = TRY(json.boolean_or("whole", false));
  share.units = static_cast<std::uint32_t>(TRY(json.integer_or("mem", 1, GpuRequest::kMostUnits, 0)));
  share.core_percent = static_cast<std::uint32_t>(TRY(json.integer_or("core", 1, 100, 0)));
  if (share.whole == (share.units > 0)) {
    return fail(json.wrong(share.whole ? "has both mem and whole" : "has neither mem nor whole"));
  }
  if (share.whole && share.core_percent > 0) {
    return fail(json.wrong("has both core and whole"));
  }
  return share;
}

Error disagrees(std::string what) {
  return {ErrorCode::kInvalid, std::move(what)};
}

// Checks that the record allocates what this container requests, and no GPU twice.
Status check_container(const ContainerRequest& asked, const ContainerShares* given) {
  if (given == nullptr) {
    return fail(disagrees(fmt::format("container {} is missing", in_quotes(asked.name))));
  }
  std::uint64_t units = 0;
  std::uint64_t core = 0;
  std::uint64_t whole = 0;
  for (auto share = given->shares.begin(); share != given->shares.end(); ++share) {
    units += share->units;
    core += share->core_percent;
    whole += share->whole ? 1 : 0;
    if (std::any_of(given->shares.begin(), share, [&](const GpuShare& g) { return g.gpu == share->gpu; })) {
      return fail(disagrees(
          fmt::format("container {} has GPU {} twice", in_quotes(asked.name), in_quotes(share->gpu))));
    }
  }
  if (units != asked.units || core != asked.core_percent || whole != asked.whole) {
    return fail(disagrees(fmt::format(
        "container {} has {} units, {}% compute and {} whole GPUs but requests {}, {}% and {}",
        in_quotes(asked.name), units, core, whole, asked.units, asked.core_percent, asked.whole)));
  }
  return {};
}

Status check(const GpuRequest& request, const Record& record) {
  for (const ContainerRequest& asked : request.containers) {
    TRY(check_container(asked, record.find(asked.name)));
  }
  for (const ContainerShares& given : record.containers) {
    if (std::ranges::find(request.containers, given.container, &ContainerRequest::name) ==
        request.containers.end()) {
      return fail(disagrees(fmt::format("container {} requests no GPUs", in_quotes(given.container))));
    }
  }
  if (record.containers.size() != request.containers.size()) {
    return fail(disagrees("a container is named twice"));
  }
  return {};
}

const GpuShare* share_of(const Record& record, const std::string& container, const std::string& gpu) {
  const ContainerShares* given = record.find(container);
  const auto found = std::ranges::find(given->shares, gpu, &GpuShare::gpu);
  return found == given->shares.end() ? nullptr : &*found;
}

// Returns the most that the containers use of one GPU at one time.
Result<GpuShare> share_on(const GpuRequest& request, const Record& record, const std::string& gpu) {
  const auto most = [&](auto amount) {
    return counted(request.containers, [&](const ContainerRequest& container) -> std::int64_t {
      const GpuShare* share = share_of(record, container.name, gpu);
      return share == nullptr ? 0 : std::int64_t{amount(*share)};
    });
  };
  GpuShare share{.gpu = gpu};
  share.units = static_cast<std::uint32_t>(most([](const GpuShare& one) { return one.units; }));
  share.core_percent = static_cast<std::uint32_t>(most([](const GpuShare& one) { return one.core_percent; }));
  const std::int64_t whole = most([](const GpuShare& one) { return one.whole ? 1 : 0; });
  share.whole = whole > 0;
  if (whole > 1) {
    return fail(disagrees(fmt::format("GPU {} is allocated whole to two containers", in_quotes(gpu))));
  }
  if (share.whole && share.units > 0) {
    return fail(disagrees(fmt::format("GPU {} is allocated both whole and in shares", in_quotes(gpu))));
  }
  return share;
}

}  // namespace

Result<Record> Record::parse(std::string_view text) {
  const auto document = TRY(with_context(parse_json(text, kMaxBytes), std::string(key::kAllocation)));
  const JsonReader root(document, std::string(key::kAllocation));
  TRY(root.integer("v", 1, 1));
  Record record;
  const JsonReader containers = TRY(root.object("containers"));
  for (const auto& [name, list] : TRY(containers.as_object(GpuRequest::kMostContainers))) {
    ContainerShares given{.container = name, .shares = {}};
    for (const JsonReader& share : TRY(list.as_array(kMostGpus))) {
      given.shares.push_back(TRY(parse_share(share)));
      if (index_of_name(given.shares.back().gpu)) {
        return fail(share.wrong("names a GPU by index; a record must use UUIDs"));
      }
    }
    record.containers.push_back(std::move(given));
  }
  return record;
}

std::string Record::json() const {
  boost::json::object by_container;
  for (const ContainerShares& given : containers) {
    boost::json::array list;
    for (const GpuShare& share : given.shares) {
      boost::json::object one{{"gpu", share.gpu}};
      if (share.whole) {
        one["whole"] = true;
      } else {
        one["mem"] = share.units;
      }
      if (share.core_percent > 0) {
        one["core"] = share.core_percent;
      }
      list.push_back(std::move(one));
    }
    by_container[given.container] = std::move(list);
  }
  return boost::json::serialize(boost::json::object{{"v", 1}, {"containers", std::move(by_container)}});
}

const ContainerShares* Record::find(std::string_view container) const {
  const auto found = std::ranges::find(containers, container, &ContainerShares::container);
  return found == containers.end() ? nullptr : &*found;
}

Result<std::vector<GpuShare>> held_shares(const GpuRequest& request, const Record& record) {
  TRY(check(request, record));
  std::vector<std::string> gpus;
  for (const ContainerShares& given : record.containers) {
    for (const GpuShare& share : given.shares) {
      if (std::ranges::find(gpus, share.gpu) == gpus.end()) {
        gpus.push_back(share.gpu);
      }
    }
  }
  if (gpus.size() > kMostGpus) {
    return fail(disagrees(fmt::format("it names {} GPUs; no node has more than {}", gpus.size(), kMostGpus)));
  }
  std::ranges::sort(gpus);
  std::vector<GpuShare> shares;
  shares.reserve(gpus.size());
  for (const std::string& gpu : gpus) {
    shares.push_back(TRY(share_on(request, record, gpu)));
  }
  return shares;
}

std::string index_name(std::uint32_t index) {
  return fmt::format("{}{}", kIndexPrefix, index);
}

std::optional<std::uint32_t> index_of_name(std::string_view gpu) {
  if (!gpu.starts_with(kIndexPrefix)) {
    return std::nullopt;
  }
  const auto index = parse_int(gpu.substr(kIndexPrefix.size()));
  if (!index || *index < 0 || *index > 4095) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(*index);
}

}  // namespace tessera::alloc
