// kube/exec_credential.h
//
// The words exchanged with exec credential plugins (client.authentication.k8s.io v1 and v1beta1).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "kube/kubeconfig.h"

namespace tessera::kube {

// What a plugin gave. Never printed: there is no operator<< and no formatter on purpose.
struct ExecCredential {
  std::string token;
  std::string client_certificate;  // PEM
  std::string client_key;          // PEM
  std::optional<Clock::Wall> expires;
};

// Reads a plugin's standard output. The messages name the field, never its content.
Result<ExecCredential> parse_exec_credential(std::string_view json, std::string_view api_version);

// The value of KUBERNETES_EXEC_INFO for a plugin of this user.
Result<std::string> exec_info(const ExecPlugin& plugin, const KubeconfigCluster& cluster);

// Runs the plugin; blocks for as long as it does. `user` stands in messages.
Result<ExecCredential> run_exec_plugin(const ExecPlugin& plugin, const KubeconfigCluster& cluster,
                                       const std::string& user);

}  // namespace tessera::kube
