// kube/object_tracker.h
//
// What a Reflector must remember to lose no change and tell none twice: for each object its name, UID and
// version, some 130 bytes. Pure; one thread.
//
// A watch brings events in the order of their versions, so an event that is not newer than the last one has
// been here before (a connection that was resumed, a proxy that repeats itself) and is dropped. After a gap,
// a new list is compared with what is remembered: what is missing in it was deleted meanwhile.
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

// A UID in 24 bytes instead of 80: as the 128 bits it prints, or as text where it is not a plain UUID.
class CompactUid {
 public:
  explicit CompactUid(std::string_view text);

  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool is(std::string_view text) const;

 private:
  Uuid uuid_;
  std::unique_ptr<std::string> odd_;
};

class ObjectTracker {
 public:
  // What is to be done about an object.
  enum class Verdict {
    kIgnore,   // known already
    kKeep,     // new, or newer than what is known
    kReplace,  // another object of the same name was known: forget that one (given to `forget`), keep this
    kForget,   // it is gone
  };
  using Forget = std::function<void(const ObjectMeta&)>;

  // A list: begin, each item, end. An item that is in several lists that broke off is judged each time.
  void begin_list() { ++round_; }
  // About how many there will be.
  void expect(std::size_t objects) { known_.reserve(objects); }
  Verdict listed(const ObjectMeta& meta, const Forget& forget);
  // The list is complete: what it did not show goes to `forget`. From now on events after `version` count.
  void end_list(std::uint64_t version, const Forget& forget);

  // An event of a watch. kBookmark only moves the version on.
  Verdict event(WatchType type, const ObjectMeta& meta, const Forget& forget);

  // From where a watch goes on; 0 before the first list.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] std::size_t size() const { return known_.size(); }
  // Events that were here before.
  [[nodiscard]] std::uint64_t repeated() const { return repeated_; }

 private:
  struct Known {
    Known(std::string_view uid_text, std::uint64_t version_number, std::uint32_t list_round)
        : uid(uid_text), version(version_number), round(list_round) {}
    CompactUid uid;
    std::uint64_t version;
    std::uint32_t round;
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
  std::uint32_t round_ = 0;
  std::uint64_t repeated_ = 0;
};

}  // namespace tessera::kube
