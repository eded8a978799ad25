// agent/gpu/record_writer.h
//
// Writes repaired records to the pods of this node.
//
//   ApiRecordWriter writer(client);
//   writer.write(pod, repair, [](const Status& written) { ... });
//
// Use and destroy it on the event loop's thread.
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

  // Writes the repair to the API server. Calls `done` once, after write() has returned.
  virtual void write(const NodePod& pod, const RecordRepair& repair, Done<Status> done) = 0;
};

class ApiRecordWriter final : public RecordWriter {
 public:
  struct Counts {
    std::uint64_t written = 0;
    std::uint64_t failed = 0;
  };

  // `client` must outlive this object.
  explicit ApiRecordWriter(kube::Client& client) : client_(client) {}
  ApiRecordWriter(const ApiRecordWriter&) = delete;
  ApiRecordWriter& operator=(const ApiRecordWriter&) = delete;

  // Writes the repair. If a write to the same pod is in flight, the new write replaces it. Both
  // callers then get the result of the new write.
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
