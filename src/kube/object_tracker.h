// kube/object_tracker.h
//
// Remembers the name, UID and version of each object, in about 130 bytes per object. A Reflector
// uses it so as neither to lose nor to repeat a change. Does no I/O. Not thread-safe.
//
// A watch sends events in the order of their versions. So an event that is not newer than the last
// one is a repetition and is dropped. Resumed connections and proxies cause repetitions. After a
// gap, a new list is compared with the known objects: a known object that is not in the list was
// deleted in between.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/uuid.h"
#include "kube/object_meta.h"
#include "kube/watch_decoder.h"

namespace tessera::kube {

// A UID in 24 bytes instead of 80: a 128-bit number, or text if it is not a UUID.
class CompactUid {
 public:
  explicit CompactUid(std::string_view text);

  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool is(std::string_view text) const;

 private:
  Uuid uuid_;
  std::unique_ptr<std::string> odd_;  // a UID that is not a UUID
};

class ObjectTracker {
 public:
  // The action that the caller must take for an object.
  enum class Verdict {
    kIgnore,   // this version is known already
    kKeep,     // new, or newer than the known version
    kReplace,  // keep; `forget` was called for the deleted object that had the same name
    kForget,   // deleted
  };
  using Forget = std::function<void(const ObjectMeta&)>;

  // For a list, call begin_list(), listed() for each item, then end_list(). If the list fails
  // before its end, start over with begin_list().
  void begin_list() { ++round_; }
  // Reserves memory for about this many objects.
  void expect(std::size_t objects) { known_.reserve(objects); }
  Verdict listed(const ObjectMeta& meta, const Forget& forget);
  // Completes a list: passes known objects that were not listed to `forget`. `version` is the
  // resourceVersion of the list. Later ADDED and MODIFIED events that are not newer than `version`
  // are ignored.
  void end_list(std::uint64_t version, const Forget& forget);

  // Processes an event of a watch. kBookmark only updates the version.
  Verdict event(WatchType type, const ObjectMeta& meta, const Forget& forget);

  // Returns the version from which to watch; 0 before the first list.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] std::size_t size() const { return known_.size(); }
  // Returns the number of dropped repetitions.
  [[nodiscard]] std::uint64_t repeated() const { return repeated_; }

 private:
  struct Known {
    Known(std::string_view uid_text, std::uint64_t version_number, std::uint32_t list_round)
        : uid(uid_text), version(version_number), round(list_round) {}
    CompactUid uid;
    std::uint64_t version;
    std::uint32_t round;  // the last list that had this object
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Objects = boost::unordered_flat_map<std::string, Known, Hash, std::equal_to<>>;

  const std::string& key_of(const ObjectMeta& meta);
  bool is_known(const ObjectMeta& meta);
  Verdict changed(const ObjectMeta& meta, const Forget& forget);
  Verdict deleted(const ObjectMeta& meta);
  static ObjectMeta meta_of(const Objects::value_type& entry);

  Objects known_;  // by "namespace/name"
  std::string key_;
  std::uint64_t version_ = 0;
  std::uint32_t round_ = 0;  // the number of the current list
  std::uint64_t repeated_ = 0;
};

}  // namespace tessera::kube
