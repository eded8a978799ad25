#include "kube/object_tracker.h"

#include <algorithm>
#include <vector>

namespace tessera::kube {

CompactUid::CompactUid(std::string_view text) {
  if (const auto uuid = Uuid::parse(text)) {
    uuid_ = *uuid;
  } else {
    odd_ = std::make_unique<std::string>(text);
  }
}

std::string CompactUid::text() const {
  return odd_ ? *odd_ : uuid_.text();
}

bool CompactUid::is(std::string_view text) const {
  if (const auto uuid = Uuid::parse(text)) {
    return !odd_ && *uuid == uuid_;
  }
  return odd_ && *odd_ == text;
}

const std::string& ObjectTracker::key_of(const ObjectMeta& meta) {
  key_.assign(meta.namespace_name);
  key_.push_back('/');
  key_.append(meta.name);
  return key_;
}

ObjectMeta ObjectTracker::meta_of(const Objects::value_type& entry) {
  const auto& [key, known] = entry;
  const std::size_t slash = key.find('/');
  return {.namespace_name = key.substr(0, slash),
          .name = key.substr(slash + 1),
          .uid = known.uid.text(),
          .version = known.version};
}

ObjectTracker::Verdict ObjectTracker::changed(const ObjectMeta& meta, const Forget& forget) {
  const auto [found, added] = known_.try_emplace(key_of(meta), meta.uid, meta.version, round_);
  if (added) {
    return Verdict::kKeep;
  }
  Known& known = found->second;
  known.round = round_;
  if (known.uid.is(meta.uid)) {
    if (known.version == meta.version) {
      return Verdict::kIgnore;
    }
    known.version = meta.version;
    return Verdict::kKeep;
  }
  // Deleted and created again during a gap.
  forget(meta_of(*found));
  known.uid = CompactUid(meta.uid);
  known.version = meta.version;
  return Verdict::kReplace;
}

// Returns whether this version of the object, or a later one, is known.
bool ObjectTracker::is_known(const ObjectMeta& meta) {
  const auto found = known_.find(key_of(meta));
  return found != known_.end() && found->second.uid.is(meta.uid) && found->second.version >= meta.version;
}

ObjectTracker::Verdict ObjectTracker::listed(const ObjectMeta& meta, const Forget& forget) {
  return changed(meta, forget);
}

void ObjectTracker::end_list(std::uint64_t version, const Forget& forget) {
  // Not max(): a server that was restored from a backup continues from an earlier version.
  version_ = version;
  std::vector<ObjectMeta> gone;
  for (const auto& entry : known_) {
    if (entry.second.round != round_) {
      gone.push_back(meta_of(entry));
    }
  }
  for (const ObjectMeta& meta : gone) {
    known_.erase(key_of(meta));
    forget(meta);
  }
}

ObjectTracker::Verdict ObjectTracker::deleted(const ObjectMeta& meta) {
  const auto found = known_.find(key_of(meta));
  if (found == known_.end() || !found->second.uid.is(meta.uid) || meta.version < found->second.version) {
    ++repeated_;
    return Verdict::kIgnore;
  }
  known_.erase(found);
  return Verdict::kForget;
}

ObjectTracker::Verdict ObjectTracker::event(WatchType type, const ObjectMeta& meta, const Forget& forget) {
  const bool newer = meta.version > version_;
  version_ = std::max(version_, meta.version);
  switch (type) {
    case WatchType::kAdded:
    case WatchType::kModified:
      if (!newer || is_known(meta)) {
        ++repeated_;
        return Verdict::kIgnore;
      }
      return changed(meta, forget);
    case WatchType::kDeleted:
      return deleted(meta);
    case WatchType::kBookmark:
    case WatchType::kError:
      break;
  }
  return Verdict::kIgnore;
}

}  // namespace tessera::kube
