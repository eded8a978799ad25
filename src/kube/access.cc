#include "kube/access.h"

#include <fmt/core.h>

#include <cstdlib>

#include "base/file.h"
#include "base/strings.h"

namespace tessera::kube {

namespace {

std::optional<std::string> variable(const AccessOptions& options, const char* name) {
  if (options.environment) {
    return options.environment(name);
  }
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::vector<std::string> kubeconfig_files(const AccessOptions& options) {
  std::vector<std::string> files;
  const std::string list = variable(options, "KUBECONFIG").value_or("");  // split() returns views into it
  for (const std::string_view file : split(list, ':')) {
    if (!file.empty()) {
      files.emplace_back(file);
    }
  }
  if (files.empty()) {
    if (const auto home = variable(options, "HOME"); home && !home->empty()) {
      files.push_back(*home + "/.kube/config");
    }
  }
  return files;
}

}  // namespace

Result<ClusterAccess> in_cluster_access(const AccessOptions& options) {
  const std::string host = variable(options, "KUBERNETES_SERVICE_HOST").value_or("");
  const std::string port = variable(options, "KUBERNETES_SERVICE_PORT").value_or("");
  if (host.empty() || port.empty()) {
    return fail(ErrorCode::kNotFound,
                "not running in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; "
                "use --kubeconfig");
  }
  ClusterAccess access;
  const bool ipv6 = host.find(':') != std::string::npos;
  access.cluster.name = "in-cluster";
  access.cluster.file = options.service_account;
  access.cluster.server =
      ipv6 ? fmt::format("https://[{}]:{}", host, port) : fmt::format("https://{}:{}", host, port);
  access.cluster.certificate_authority.file = options.service_account + "/ca.crt";
  access.user.name = "service account";
  access.user.file = options.service_account;
  access.user.token_file = options.service_account + "/token";
  auto token = read_file(access.user.token_file);
  if (!token) {
    return fail(std::move(token).error().context(
        "cannot read the pod's service account token (is automountServiceAccountToken false?)"));
  }
  const auto namespace_name = read_file(options.service_account + "/namespace");
  access.namespace_name = namespace_name ? std::string(trim(*namespace_name)) : "default";
  return access;
}

Result<Kubeconfig> find_kubeconfig(const AccessOptions& options) {
  if (options.kubeconfig.empty()) {
    return load_kubeconfig(kubeconfig_files(options));
  }
  auto config = load_kubeconfig({options.kubeconfig});
  if (!config && config.error().code() == ErrorCode::kNotFound) {
    return fail(ErrorCode::kNotFound, fmt::format("--kubeconfig: {} does not exist", options.kubeconfig));
  }
  return with_context(std::move(config), "--kubeconfig");
}

Result<ClusterAccess> find_access(const AccessOptions& options) {
  auto config = find_kubeconfig(options);
  if (config) {
    return config->access(options.context);
  }
  if (config.error().code() == ErrorCode::kNotFound && options.kubeconfig.empty() &&
      options.context.empty() && variable(options, "KUBERNETES_SERVICE_HOST")) {
    return in_cluster_access(options);
  }
  return fail(std::move(config).error());
}

}  // namespace tessera::kube
