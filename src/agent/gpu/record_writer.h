// agent/gpu/record_writer.h
//
// Writes repaired records to the pods of this node.
//
//   ApiRecordWriter writer(client);
//   writer.write(pod, repair, [](const Status& written) { ... });
//
// On the event loop's thread; destroy it there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/devices/loop_gate.h"
#include "agent/devices/node_pods.h"
#include "agent/gpu/record_repair.h"
#include "kube/client.h"

namespace tessera::agent {

class RecordWriter {
 public:
  virtual ~RecordWriter() = default;

  // `done` is called once, later.
  virtual void write(const NodePod& pod, const RecordRepair& repair, Done<Status> done) = 0;
};

class ApiRecordWriter final : public RecordWriter {
 public:
  struct Counts {
    std::uint64_t written = 0;
    std::uint64_t failed = 0;
  };

  // `client` must outlive it.
  explicit ApiRecordWriter(kube::Client& client) : client_(client) {}
  ApiRecordWriter(const ApiRecordWriter&) = delete;
  ApiRecordWriter& operator=(const ApiRecordWriter&) = delete;

  // A caller that arrives while a write to the same pod is in flight waits for the later write.
  void write(const NodePod& pod, const RecordRepair& repair, Done<Status> done) override;

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  struct Writing {
    kube::Call call;
    std::vector<Done<Status>> waiting;
  };

  void on_reply(const std::string& uid, const std::string& pod, const Result<kube::Reply>& reply);

  kube::Client& client_;
  std::map<std::string, Writing, std::less<>> writing_;  // by UID
  Counts counts_;
};

}  // namespace tessera::agent
