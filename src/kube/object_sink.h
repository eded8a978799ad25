// kube/object_sink.h
//
// Where a Reflector brings the objects of the API server, and how little of them is kept.
//
//   class PodSink final : public ObjectSink {
//     Status decode(ObjectJson& object, ObjectMeta& meta) override { return decode_pod(object, names_, meta,
//     pod_); } void keep(const ObjectMeta&) override { ledger_.set(std::move(pod_)); } void forget(const
//     ObjectMeta& meta) override { ledger_.remove(meta.uid); }
//     ...
//   };
//
// An object is read in one pass over its bytes, before it is known whether it is news: decode() reads it into
// a place of the sink's own (the same one every time), and keep() follows only when the version is new. All
// calls come on the loop's thread.
#pragma once

#include "base/result.h"
#include "kube/object_meta.h"

namespace tessera::kube {

// One JSON object of the API that is being read; object_json.h has its inside, for .cc files.
class ObjectJson;

class ObjectSink {
 public:
  virtual ~ObjectSink() = default;

  // Reads the object: who it is into `meta` (all of it), and whatever is wanted of the rest. An object that
  // is well-formed but makes no sense fails here and goes to unreadable().
  virtual Status decode(ObjectJson& object, ObjectMeta& meta) = 0;

  // What decode() read last is new, or a new version of what was kept under that UID.
  virtual void keep(const ObjectMeta& meta) = 0;

  // The object no longer exists, or no longer matches the selector. `meta` says which it was and its last
  // version.
  virtual void forget(const ObjectMeta& meta) = 0;

  // decode() failed for a new version of this object: what was kept of it before is out of date. Called once
  // a version; nothing else is called for it.
  virtual void unreadable(const ObjectMeta& meta, const Error& error) = 0;

  // All that exists has been brought, for the first time or again after a gap.
  virtual void synced() {}
};

}  // namespace tessera::kube
