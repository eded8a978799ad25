// tests/kube/recording_sink.h
//
// A sink that records its calls and fails the test on calls that a Reflector must never make.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fake_api_server.h"
#include "kube/object_json.h"
#include "kube/object_sink.h"

namespace tessera::kube {

class RecordingSink : public ObjectSink {
 public:
  Status decode(ObjectJson& object, ObjectMeta& meta) override {
    value_.clear();
    const JsonError error = each_field(object.object(), [&](JsonKey key, JsonValue value) {
      if (is(key, "metadata")) {
        return read_meta(value, meta);
      }
      if (is(key, "spec")) {
        return each_field(value, [&](JsonKey field, JsonValue inner) {
          return is(field, "value") ? read_text(inner, value_) : simdjson::SUCCESS;
        });
      }
      return simdjson::SUCCESS;
    });
    TRY(object.judge(error));
    return value_ == "unreadable" ? fail(ErrorCode::kInvalid, "the value is invalid") : Status{};
  }

  void keep(const ObjectMeta& meta) override {
    const auto found = things.find(meta.name);
    if (found != things.end()) {
      EXPECT_EQ(found->second.uid, meta.uid) << meta.name << " was replaced without forget()";
      EXPECT_NE(found->second.version, meta.version) << meta.name << " was delivered twice";
    }
    unread_.erase(meta.name);
    things[meta.name] = {.uid = meta.uid, .version = meta.version, .value = value_};
    log.push_back("+" + meta.name + "=" + value_);
  }

  void forget(const ObjectMeta& meta) override {
    log.push_back("-" + meta.name);
    if (unread_.erase(meta.name) > 0) {
      return;
    }
    const auto found = things.find(meta.name);
    ASSERT_NE(found, things.end()) << meta.name << " is unknown";
    EXPECT_EQ(found->second.uid, meta.uid);
    things.erase(found);
  }

  void unreadable(const ObjectMeta& meta, const Error& /*error*/) override {
    things.erase(meta.name);
    unread_.insert(meta.name);
    log.push_back("?" + meta.name + (meta.node_name.empty() ? "" : "@" + meta.node_name));
  }

  void synced() override { ++syncs; }

  std::map<std::string, FakeApiServer::Thing> things;
  std::vector<std::string> log;
  int syncs = 0;

 private:
  std::string value_;
  std::set<std::string> unread_;  // names of objects that could not be read
};

}  // namespace tessera::kube
