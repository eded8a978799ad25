// agent/gpu/record_writer.h
//
// Writes repaired records to the pods of this node.
//
//   RecordWriter writer(client);
//   writer.write(pod, repair, [](const Status& written) { ... });
//
// On the event loop's thread; destroy it there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/devices/node_pods.h"
#include "agent/gpu/record_repair.h"
#include "kube/client.h"

namespace tessera::agent {

class RecordWriter {
 public:
  using Done = std::function<void(const Status&)>;

  struct Counts {
    std::uint64_t written = 0;
    std::uint64_t failed = 0;
  };

  // `client` must outlive it.
  explicit RecordWriter(kube::Client& client) : client_(client) {}
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // `done` comes once, later. Who asks while the same pod is being written to waits for the later write.
  void write(const NodePod& pod, const RecordRepair& repair, Done done);

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  struct Writing {
    kube::Call call;
    std::vector<Done> waiting;
  };

  void came(const std::string& uid, const std::string& pod, const Result<kube::Reply>& reply);

  kube::Client& client_;
  std::map<std::string, Writing, std::less<>> writing_;  // by UID
  Counts counts_;
};

}  // namespace tessera::agent
