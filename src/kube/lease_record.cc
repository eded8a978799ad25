#include "kube/lease_record.h"

#include <boost/json.hpp>

#include "base/json_reader.h"
#include "kube/rfc3339.h"

namespace tessera::kube {

namespace {

Result<Clock::Wall> time_or_none(const JsonReader& spec, std::string_view key) {
  const std::string text = TRY(spec.text_or(key, ""));
  return text.empty() ? Result<Clock::Wall>(Clock::Wall{}) : parse_rfc3339(text);
}

boost::json::object spec_of(const LeaseRecord& record) {
  return {{"holderIdentity", record.holder},
          {"leaseDurationSeconds", record.duration.count()},
          {"acquireTime", rfc3339_micros(record.acquired)},
          {"renewTime", rfc3339_micros(record.renewed)},
          {"leaseTransitions", record.transitions}};
}

}  // namespace

Result<LeaseRecord> parse_lease(std::string_view json) {
  const boost::json::value document = TRY(parse_json(json));
  const JsonReader root(document, "Lease");
  LeaseRecord record;
  const JsonReader metadata = TRY(root.object("metadata"));
  record.resource_version = TRY(metadata.text("resourceVersion"));
  record.duration = std::chrono::seconds(0);
  if (!root.has("spec")) {
    return record;
  }
  const JsonReader spec = TRY(root.object("spec"));
  record.holder = TRY(spec.text_or("holderIdentity", ""));
  record.duration = std::chrono::seconds(TRY(spec.integer_or("leaseDurationSeconds", 0, INT32_MAX, 0)));
  record.acquired = TRY(time_or_none(spec, "acquireTime"));
  record.renewed = TRY(time_or_none(spec, "renewTime"));
  record.transitions = static_cast<int>(TRY(spec.integer_or("leaseTransitions", 0, INT32_MAX, 0)));
  return record;
}

std::string lease_to_create(std::string_view namespace_name, std::string_view name,
                            const LeaseRecord& record) {
  return boost::json::serialize(
      boost::json::object{{"apiVersion", "coordination.k8s.io/v1"},
                          {"kind", "Lease"},
                          {"metadata", boost::json::object{{"name", name}, {"namespace", namespace_name}}},
                          {"spec", spec_of(record)}});
}

std::string lease_to_patch(const LeaseRecord& record) {
  return boost::json::serialize(
      boost::json::object{{"metadata", boost::json::object{{"resourceVersion", record.resource_version}}},
                          {"spec", spec_of(record)}});
}

}  // namespace tessera::kube
