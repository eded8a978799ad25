#include "cli/cluster.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <utility>

#include "base/version.h"
#include "cli/cluster_api.h"
#include "cli/cluster_store.h"
#include "cli/list_pages.h"
#include "http/event_loop.h"
#include "kube/list_decoder.h"

namespace tessera::cli {

namespace {

Status read_list(const std::string& path, const std::string& how, kube::ObjectSink& sink) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return fail(ErrorCode::kNotFound,
                fmt::format("--file: {} cannot be opened; save it with: {}", path, how));
  }
  kube::ListDecoder decoder;
  const auto on_item = [&](const kube::ObjectMeta& meta, const Status& decoded) {
    if (decoded) {
      sink.keep(meta);
    } else {
      sink.unreadable(meta, decoded.error());
    }
  };
  return with_context(each_page(in, {},
                                [&](json::PaddedView page) -> Status {
                                  TRY(decoder.decode(page, sink, on_item));
                                  return {};
                                }),
                      path);
}

}  // namespace

void add_cluster_options(CLI::App& command, ClusterOptions& options) {
  CLI::Option* file = command.add_option(
      "--file", options.file,
      "Read nodes.json and pods.json of this directory (kubectl get ... -o json) instead of a cluster");
  command.add_option("--kubeconfig", options.kubeconfig, "File that says how to reach the cluster")
      ->excludes(file);
  command.add_option("--context", options.context, "Context of the kubeconfig to use")->excludes(file);
  CLI::Option* name =
      command.add_option("--namespace,-n", options.namespace_name, "Only pods of this namespace");
  command.add_flag("--all-namespaces,-A", options.all_namespaces, "Pods of all namespaces")->excludes(name);
}

Status read_files(const std::string& directory, ClusterStore& store) {
  TRY(read_list(directory + "/nodes.json", "kubectl get nodes -o json > nodes.json", store.nodes()));
  return read_list(directory + "/pods.json", "kubectl get pods -A -o json > pods.json", store.pods());
}

Result<Cluster> read_cluster(const ClusterOptions& options, const ClusterQuery& query) {
  ClusterStore store(query);
  if (!options.file.empty()) {
    TRY(read_files(options.file, store));
    return store.take();
  }
  http::EventLoop loop;
  kube::Client client = TRY(connect(loop, options));
  TRY(list_cluster(client, store));
  Cluster cluster = store.take();
  cluster.default_namespace = client.default_namespace();
  return cluster;
}

}  // namespace tessera::cli
