// Nodes and pods of a large GPU cluster as the API server shows them: 8.9 KB a node, 3 KB a pod.
#pragma once

#include <cstddef>
#include <string>

namespace tessera::bench {

inline constexpr std::size_t kNodes = 5000;
inline constexpr std::size_t kPods = 40'000;

// As they stand in a list, in version `version`.
std::string node_json(std::size_t i, std::size_t version);
std::string pod_json(std::size_t i, std::size_t version);

// What creates such a one on a real API server, which adds what the others have besides.
std::string node_to_create(std::size_t i);
std::string pod_to_create(std::size_t i);

}  // namespace tessera::bench
