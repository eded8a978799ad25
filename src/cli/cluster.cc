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

void add_cluster_options(CLI::App& command, ClusterOptions& options) {
  CLI::Option* file = command.add_option(
      "--file", options.file,
      "Read nodes.json and pods.json of this directory (kubectl get ... -o json) instead of a cluster");
  command.add_option("--kubeconfig", options.kubeconfig, "File that says how to reach the cluster")
      ->excludes(file);
  command.add_option("--context", options.context, "Context of the kubeconfig to use")->excludes(file);
}

void add_namespace_options(CLI::App& command, ClusterOptions& options, const std::string& what) {
  CLI::Option* name = command.add_option("--namespace,-n", options.namespace_name, what);
  command.add_flag("--all-namespaces,-A", options.all_namespaces, "Pods of all namespaces")->excludes(name);
}

void add_report_options(CLI::App& command, std::string& unit, std::string& output) {
  command.add_option("--unit,-u", unit,
                     "What one aliyun.com/gpu-mem is: GiB, MiB or like 256MiB; else as the agents count");
  command.add_option("--output,-o", output, "text, json or yaml")
      ->check(CLI::IsMember({"text", "json", "yaml"}))
      ->capture_default_str();
}

Status read_list(std::istream& in, kube::ObjectSink& sink) {
  kube::ListDecoder decoder;
  return each_page(in, {}, [&](json::PaddedView page) -> Status {
    TRY(decoder.decode(page, sink, keep_or_tell(sink)));
    return {};
  });
}

Status read_files(const std::string& directory, ClusterStore& store) {
  const auto read_file_of = [&](const std::string& name, const std::string& how,
                                kube::ObjectSink& sink) -> Status {
    const std::string path = directory + "/" + name;
    std::ifstream in(path, std::ios::binary);
    if (!in) {
      return fail(ErrorCode::kNotFound,
                  fmt::format("--file: {} cannot be opened; save it with: {} > {}", path, how, name));
    }
    return with_context(read_list(in, sink), path);
  };
  TRY(read_file_of("nodes.json", "kubectl get nodes -o json", store.nodes()));
  return read_file_of("pods.json", "kubectl get pods -A -o json", store.pods());
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
