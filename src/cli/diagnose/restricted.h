// cli/diagnose/restricted.h
//
// The answers of `tessera why` for a user who may not list nodes, or may list pods only in one
// namespace. What other pods hold is then unknown, so the answer has only what the pod itself says:
// its request, its record, its conditions and its Events. Amounts are those that the user wrote,
// because the unit of the cluster is in the inventories of the nodes.
#pragma once

#include <string>
#include <vector>

#include "alloc/pod.h"
#include "alloc/request.h"
#include "cli/cluster/cluster.h"
#include "cli/diagnose/why.h"
#include "objects/pod_details.h"

namespace tessera::cli {

// Returns the request in the words of the manifest: "aliyun.com/gpu-mem: 8 on one GPU". Pure.
std::string restricted_needs(const alloc::Request& request, const alloc::ResourceNames& names);

// Returns the answer for a pod that has a node: the node, and what its record says. Pure.
std::string restricted_bound_answer(const alloc::PodSpec& pod, const alloc::ResourceNames& names);

// Returns what the scheduler last said about a pod without a node; "" if it said nothing. Pure.
std::string scheduler_text(const objects::PodDetails& details);

// An Event about a pod.
struct PodEvent {
  std::string reason;
  std::string message;
  std::string last;  // RFC 3339
};

// Parses an EventList of the API server. Returns Tessera's newest Event of each reason, newest first.
// Pure.
std::vector<PodEvent> tessera_events(const std::string& json);

// Reads Tessera's Events about a pod. Returns none if the user may not list Events, or if the cluster
// is read from files.
std::vector<PodEvent> read_pod_events(const ClusterOptions& options, const alloc::PodSpec& pod);

// For a user who may not read everything, adds the pod's Events and what is missing to the hints.
void add_restricted_facts(const ClusterOptions& options, const Cluster& cluster, WhyReport& report);

}  // namespace tessera::cli
