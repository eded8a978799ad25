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

Result<Grant> parse_grant(const JsonReader& json) {
  Grant grant;
  grant.gpu = TRY(json.text("gpu"));
  if (grant.gpu.empty() || grant.gpu.size() > 128) {
    return fail(json.wrong("names no GPU"));
  }
  grant.whole = TRY(json.boolean_or("whole", false));
  grant.units = static_cast<std::uint32_t>(TRY(json.integer_or("mem", 1, Demand::kMostUnits, 0)));
  grant.core_percent = static_cast<std::uint32_t>(TRY(json.integer_or("core", 1, 100, 0)));
  if (grant.whole == (grant.units > 0)) {
    return fail(json.wrong(grant.whole ? "has both mem and whole" : "has neither mem nor whole"));
  }
  if (grant.whole && grant.core_percent > 0) {
    return fail(json.wrong("has both core and whole"));
  }
  return grant;
}

Error disagrees(std::string what) {
  return {ErrorCode::kInvalid, std::move(what)};
}

// That the record gives this container what it asked for, no GPU twice.
Status check_container(const ContainerRequest& asked, const ContainerGrants* given) {
  if (given == nullptr) {
    return fail(disagrees(fmt::format("container {} is missing", in_quotes(asked.name))));
  }
  std::uint64_t units = 0;
  std::uint64_t core = 0;
  std::uint64_t whole = 0;
  for (auto grant = given->grants.begin(); grant != given->grants.end(); ++grant) {
    units += grant->units;
    core += grant->core_percent;
    whole += grant->whole ? 1 : 0;
    if (std::any_of(given->grants.begin(), grant, [&](const Grant& g) { return g.gpu == grant->gpu; })) {
      return fail(disagrees(
          fmt::format("container {} has GPU {} twice", in_quotes(asked.name), in_quotes(grant->gpu))));
    }
  }
  if (units != asked.units || core != asked.core_percent || whole != asked.whole) {
    return fail(disagrees(fmt::format(
        "container {} has {} units, {}% compute and {} whole GPUs but asked for {}, {}% and {}",
        in_quotes(asked.name), units, core, whole, asked.units, asked.core_percent, asked.whole)));
  }
  return {};
}

Status check(const Demand& demand, const Record& record) {
  for (const ContainerRequest& asked : demand.containers) {
    TRY(check_container(asked, record.find(asked.name)));
  }
  for (const ContainerGrants& given : record.containers) {
    if (std::ranges::find(demand.containers, given.container, &ContainerRequest::name) ==
        demand.containers.end()) {
      return fail(disagrees(fmt::format("container {} did not ask for GPUs", in_quotes(given.container))));
    }
  }
  if (record.containers.size() != demand.containers.size()) {
    return fail(disagrees("a container is named twice"));
  }
  return {};
}

const Grant* grant_of(const Record& record, const std::string& container, const std::string& gpu) {
  const ContainerGrants* given = record.find(container);
  const auto found = std::ranges::find(given->grants, gpu, &Grant::gpu);
  return found == given->grants.end() ? nullptr : &*found;
}

// The most that is used of one GPU at one time.
Result<Claim> claim_on(const Demand& demand, const Record& record, const std::string& gpu) {
  const auto most = [&](auto amount) {
    return counted(demand.containers, [&](const ContainerRequest& container) -> std::int64_t {
      const Grant* grant = grant_of(record, container.name, gpu);
      return grant == nullptr ? 0 : std::int64_t{amount(*grant)};
    });
  };
  Claim claim{.gpu = gpu};
  claim.units = static_cast<std::uint32_t>(most([](const Grant& grant) { return grant.units; }));
  claim.core_percent =
      static_cast<std::uint32_t>(most([](const Grant& grant) { return grant.core_percent; }));
  const std::int64_t whole = most([](const Grant& grant) { return grant.whole ? 1 : 0; });
  claim.whole = whole > 0;
  if (whole > 1) {
    return fail(disagrees(fmt::format("GPU {} is given whole to two containers", in_quotes(gpu))));
  }
  if (claim.whole && claim.units > 0) {
    return fail(disagrees(fmt::format("GPU {} is given both whole and in shares", in_quotes(gpu))));
  }
  return claim;
}

}  // namespace

Result<Record> Record::parse(std::string_view text) {
  const auto document = TRY(with_context(parse_json(text, kMaxBytes), std::string(key::kAllocation)));
  const JsonReader root(document, std::string(key::kAllocation));
  TRY(root.integer("v", 1, 1));
  Record record;
  const JsonReader containers = TRY(root.object("containers"));
  for (const auto& [name, list] : TRY(containers.as_object(Demand::kMostContainers))) {
    ContainerGrants given{.container = name, .grants = {}};
    for (const JsonReader& grant : TRY(list.as_array(kMostGpus))) {
      given.grants.push_back(TRY(parse_grant(grant)));
      if (index_of_name(given.grants.back().gpu)) {
        return fail(grant.wrong("names a GPU by index; only its UUID says which one it is"));
      }
    }
    record.containers.push_back(std::move(given));
  }
  return record;
}

std::string Record::json() const {
  boost::json::object by_container;
  for (const ContainerGrants& given : containers) {
    boost::json::array list;
    for (const Grant& grant : given.grants) {
      boost::json::object one{{"gpu", grant.gpu}};
      if (grant.whole) {
        one["whole"] = true;
      } else {
        one["mem"] = grant.units;
      }
      if (grant.core_percent > 0) {
        one["core"] = grant.core_percent;
      }
      list.push_back(std::move(one));
    }
    by_container[given.container] = std::move(list);
  }
  return boost::json::serialize(boost::json::object{{"v", 1}, {"containers", std::move(by_container)}});
}

const ContainerGrants* Record::find(std::string_view container) const {
  const auto found = std::ranges::find(containers, container, &ContainerGrants::container);
  return found == containers.end() ? nullptr : &*found;
}

Result<std::vector<Claim>> claims_of(const Demand& demand, const Record& record) {
  TRY(check(demand, record));
  std::vector<std::string> gpus;
  for (const ContainerGrants& given : record.containers) {
    for (const Grant& grant : given.grants) {
      if (std::ranges::find(gpus, grant.gpu) == gpus.end()) {
        gpus.push_back(grant.gpu);
      }
    }
  }
  if (gpus.size() > kMostGpus) {
    return fail(disagrees(fmt::format("it names {} GPUs; no node has more than {}", gpus.size(), kMostGpus)));
  }
  std::ranges::sort(gpus);
  std::vector<Claim> claims;
  claims.reserve(gpus.size());
  for (const std::string& gpu : gpus) {
    claims.push_back(TRY(claim_on(demand, record, gpu)));
  }
  return claims;
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
