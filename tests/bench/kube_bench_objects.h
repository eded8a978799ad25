// Nodes and pods of a large GPU cluster, as the API server returns them: 8.9 KB per node, 3 KB per
// pod.
#pragma once

#include <cstddef>
#include <string>

namespace tessera::bench {

inline constexpr std::size_t kNodes = 5000;
inline constexpr std::size_t kPods = 40'000;

// Return an object as in a list, with the given resource version.
std::string node_json(std::size_t i, std::size_t version);
std::string pod_json(std::size_t i, std::size_t version);

// Return the body that creates such an object on a real API server, which adds the remaining
// fields.
std::string node_to_create(std::size_t i);
std::string pod_to_create(std::size_t i);

}  // namespace tessera::bench
