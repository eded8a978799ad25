// kube/exec_credential.h
//
// The protocol of exec credential plugins (client.authentication.k8s.io v1 and v1beta1).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "kube/kubeconfig.h"

namespace tessera::kube {

// The credential that a plugin returned. It has no operator<< and no formatter, so that it is never
// printed.
struct ExecCredential {
  std::string token;
  std::string client_certificate;      // PEM
  std::string client_key;              // PEM
  std::optional<Clock::Wall> expires;  // nullopt: valid until the server refuses it
};

// Parses a plugin's standard output. Error messages name the field, but never its content.
Result<ExecCredential> parse_exec_credential(std::string_view json, std::string_view api_version);

// Returns the value of KUBERNETES_EXEC_INFO for a plugin.
Result<std::string> exec_info(const ExecPlugin& plugin, const KubeconfigCluster& cluster);

// Runs the plugin and blocks until it ends. `user` is used in error messages.
Result<ExecCredential> run_exec_plugin(const ExecPlugin& plugin, const KubeconfigCluster& cluster,
                                       const std::string& user);

}  // namespace tessera::kube
