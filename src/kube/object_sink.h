// kube/object_sink.h
//
// Receives the objects of a Reflector. The sink decides which parts of an object it keeps.
//
//   class PodSink final : public ObjectSink {
//     Status decode(ObjectJson& object, ObjectMeta& meta) override {
//       return decode_pod(object, names_, meta, pod_);
//     }
//     void keep(const ObjectMeta&) override { ledger_.set(std::move(pod_)); }
//     void forget(const ObjectMeta& meta) override { ledger_.remove(meta.uid); }
//     ...
//   };
//
// An object is parsed in one pass, before its version is known. So decode() only reads it into a
// member of the sink (pod_ above), and keep() is called afterwards if the version is new. All calls
// run on the loop's thread.
#pragma once

#include "base/result.h"
#include "kube/object_meta.h"

namespace tessera::kube {

// A JSON object that is being parsed. Defined in object_json.h, which only .cc files include.
class ObjectJson;

class ObjectSink {
 public:
  virtual ~ObjectSink() = default;

  // Parses the object: fills all of `meta`, and reads the parts that the sink needs. Returns an
  // error if the JSON is well-formed but the object is invalid; unreadable() is then called.
  virtual Status decode(ObjectJson& object, ObjectMeta& meta) = 0;

  // Called if the object of the last decode() is new, or is a new version of a known object.
  virtual void keep(const ObjectMeta& meta) = 0;

  // Called if the object was deleted, or no longer matches the selector. `meta` identifies the
  // object by its name and UID.
  virtual void forget(const ObjectMeta& meta) = 0;

  // decode() failed for a new version of this object, so the kept version is out of date. Called
  // once per version, instead of keep(). Also called for an object that is too large to be decoded;
  // the error is then kExhausted.
  virtual void unreadable(const ObjectMeta& meta, const Error& error) = 0;

  // Called when a list is complete, that is, after the first list and after each re-list. The sink
  // has then received all existing objects.
  virtual void synced() {}
};

}  // namespace tessera::kube
