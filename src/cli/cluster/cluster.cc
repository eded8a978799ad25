#include "cli/cluster/cluster.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "alloc/units.h"
#include "cli/cluster/cluster_api.h"
#include "cli/cluster/cluster_files.h"
#include "cli/cluster/cluster_store.h"
#include "cli/command/checked_by.h"
#include "http/event_loop.h"

namespace tessera::cli {

void add_cluster_options(CLI::App& command, ClusterOptions& options) {
  CLI::Option* file = command.add_option(
      "--file", options.file,
      "Read nodes.json and pods.json in this directory (kubectl get ... -o json) instead of a cluster");
  command.add_option("--kubeconfig", options.kubeconfig, "Path of the kubeconfig")->excludes(file);
  command.add_option("--context", options.context, "Context of the kubeconfig to use")->excludes(file);
  command.add_option(
      "--resource-prefix", options.resource_prefix,
      "Prefix of the cluster's GPU resources (default: read from Tessera's pods, or aliyun.com)");
  command.add_option("--resource-whole", options.resource_whole,
                     "Resource name of whole GPUs, for example nvidia.com/gpu (default: read from Tessera's "
                     "pods, or PREFIX/gpu)");
  command.add_option("--tessera-namespace", options.tessera_namespace,
                     "Namespace in which Tessera runs (default: found by the labels of its pods)");
}

void add_namespace_options(CLI::App& command, ClusterOptions& options, const std::string& what) {
  CLI::Option* name = command.add_option("--namespace,-n", options.namespace_name, what);
  command.add_flag("--all-namespaces,-A", options.all_namespaces, "Include the pods of all namespaces")
      ->excludes(name);
}

void add_report_options(CLI::App& command, std::string& unit, std::string& output) {
  command
      .add_option("--unit,-u", unit,
                  "Unit of GPU memory: GiB, MiB or an amount like 256MiB (default: the unit of most agents)")
      ->check(checked_by(alloc::Unit::parse));
  command.add_option("--output,-o", output, "text, wide (not adapted to a narrow terminal), json or yaml")
      ->check(CLI::IsMember({"text", "wide", "json", "yaml"}))
      ->capture_default_str();
}

namespace {

Result<Cluster> read_api(const ClusterOptions& options, const ClusterQuery& query) {
  http::EventLoop loop;
  kube::Client client = TRY(connect(loop, options));
  ClusterStore store(query, TRY(ask_settings(client, options)));
  Restriction restriction = TRY(list_cluster(client, store));
  Cluster cluster = store.take();
  cluster.default_namespace = client.default_namespace();
  cluster.restriction = std::move(restriction);
  return cluster;
}

}  // namespace

Result<Cluster> read_cluster(const ClusterOptions& options, const ClusterQuery& query) {
  if (!options.file.empty()) {
    ClusterStore store(query, TRY(settings_in_files(options)));
    TRY(read_files(options.file, store));
    return store.take();
  }
  auto cluster = read_api(options, query);
  if (!cluster) {
    return fail(with_cluster(options, cluster.error()));
  }
  return cluster;
}

}  // namespace tessera::cli
