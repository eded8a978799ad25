// agent/gpu/gpu_ids.h
//
// What kubelet calls the pieces of a GPU: "5d3c1b2a-12" is share 12 of the GPU whose UUID begins with
// GPU-5d3c1b2a, and "5d3c1b2a" is that GPU as a whole.
//
// kubelet writes IDs into its checkpoint and into the status of pods, so they must mean the same GPU after a
// restart and after the driver has numbered its GPUs anew; and they are short, because every ID travels in
// every list (kubelet takes 4 MiB) and in the object of every pod that holds it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::agent {

class GpuIds {
 public:
  // The tag of a GPU, which it keeps from now on. It follows from the UUID alone, unless another GPU has the
  // same one already: then from more of it.
  const std::string& tag(std::string_view uuid);

  [[nodiscard]] std::string share(std::string_view uuid, std::uint32_t number);
  [[nodiscard]] std::string whole(std::string_view uuid) { return tag(uuid); }

  // The UUID of the GPU that an ID is of; nothing for an ID of somebody else, or of a GPU never seen here.
  [[nodiscard]] std::optional<std::string> gpu_of(std::string_view id) const;

  // Whether an ID has our form. Those of other device plugins have not: NVIDIA's are whole UUIDs, those of
  // the original "GPU-<uuid>-_-12".
  static bool is_ours(std::string_view id);

 private:
  std::map<std::string, std::string, std::less<>> tags_;   // by UUID
  std::map<std::string, std::string, std::less<>> uuids_;  // by tag
};

}  // namespace tessera::agent
