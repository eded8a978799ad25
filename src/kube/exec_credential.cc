#include "kube/exec_credential.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <functional>

#include "base/json_reader.h"
#include "base/strings.h"
#include "kube/base64.h"
#include "kube/child_process.h"
#include "kube/rfc3339.h"

namespace tessera::kube {

namespace {

constexpr std::size_t kMinSecretBytes = 6;

// Returns the values that the kubeconfig passes to the plugin, with their names: environment
// variables and values of flags. Any of them may be a secret.
std::vector<std::pair<std::string, std::string>> possible_secrets(const ExecPlugin& plugin) {
  std::vector<std::pair<std::string, std::string>> found = plugin.env;
  std::string flag;  // the flag that the next argument may belong to
  for (const std::string& arg : plugin.args) {
    const std::size_t equals = arg.find('=');
    if (!arg.starts_with('-')) {
      if (!flag.empty()) {
        found.emplace_back(flag, arg);
      }
      flag.clear();
    } else if (equals == std::string::npos) {
      flag = arg;
    } else {
      found.emplace_back(arg.substr(0, equals), arg.substr(equals + 1));
      flag.clear();
    }
  }
  std::erase_if(found, [](const auto& entry) { return entry.second.size() < kMinSecretBytes; });
  // Longest first, because one value may be a prefix of another.
  std::ranges::stable_sort(found, std::greater(), [](const auto& entry) { return entry.second.size(); });
  return found;
}

// Returns the plugin's standard error with possible secrets replaced by their names.
std::string redacted_stderr(const ProgramOutput& output, const ExecPlugin& plugin) {
  std::string text(trim(output.err));
  for (const auto& [name, value] : possible_secrets(plugin)) {
    for (std::size_t at = 0; (at = text.find(value, at)) != std::string::npos;) {
      text.replace(at, value.size(), "<" + name + ">");
      at += name.size() + 2;
    }
  }
  constexpr std::size_t kLongest = 400;
  if (text.size() > kLongest) {
    text.erase(0, text.size() - kLongest);
  }
  return text;
}

std::string hint(const ExecPlugin& plugin) {
  return plugin.install_hint.empty() ? "" : "; " + in_quotes(trim(plugin.install_hint), 400);
}

}  // namespace

Result<ExecCredential> parse_exec_credential(std::string_view json, std::string_view api_version) {
  const auto document = parse_json(json);
  if (!document) {
    // Do not use the parser's message: it could quote a token.
    return fail(ErrorCode::kInvalid, "its output is not JSON");
  }
  const JsonReader root(*document, "its output");
  const std::string kind = TRY(root.text("kind"));
  const std::string version = TRY(root.text("apiVersion"));
  if (kind != "ExecCredential" || version != api_version) {
    return fail(ErrorCode::kInvalid,
                fmt::format("its output is a {} of {}, but the kubeconfig asks for an ExecCredential of {}",
                            in_quotes(kind), in_quotes(version), api_version));
  }
  const JsonReader status = TRY(root.object("status"));
  ExecCredential credential;
  credential.token = TRY(status.text_or("token", ""));
  credential.client_certificate = TRY(status.text_or("clientCertificateData", ""));
  credential.client_key = TRY(status.text_or("clientKeyData", ""));
  if (credential.client_certificate.empty() != credential.client_key.empty()) {
    return fail(ErrorCode::kInvalid, "its output has only one of clientCertificateData and clientKeyData");
  }
  if (credential.token.empty() && credential.client_certificate.empty()) {
    return fail(ErrorCode::kInvalid, "its output has neither a token nor a client certificate");
  }
  const std::string expires = TRY(status.text_or("expirationTimestamp", ""));
  if (!expires.empty()) {
    credential.expires = TRY(with_context(parse_rfc3339(expires), "its output: status.expirationTimestamp"));
  }
  return credential;
}

Result<std::string> exec_info(const ExecPlugin& plugin, const KubeconfigCluster& cluster) {
  boost::json::object spec{{"interactive", false}};
  if (plugin.provide_cluster_info) {
    boost::json::object about{{"server", cluster.server}};
    if (!cluster.tls_server_name.empty()) {
      about["tls-server-name"] = cluster.tls_server_name;
    }
    if (cluster.insecure_skip_tls_verify) {
      about["insecure-skip-tls-verify"] = true;
    }
    const std::string authority = TRY(cluster.certificate_authority.read());
    if (!authority.empty()) {
      about["certificate-authority-data"] = encode_base64(authority);
    }
    if (!cluster.proxy_url.empty()) {
      about["proxy-url"] = cluster.proxy_url;
    }
    if (!cluster.exec_config_json.empty()) {
      about["config"] = TRY(parse_json(cluster.exec_config_json));
    }
    spec["cluster"] = std::move(about);
  }
  return boost::json::serialize(boost::json::object{
      {"kind", "ExecCredential"}, {"apiVersion", plugin.api_version}, {"spec", std::move(spec)}});
}

Result<ExecCredential> run_exec_plugin(const ExecPlugin& plugin, const KubeconfigCluster& cluster,
                                       const std::string& user) {
  const std::string where = fmt::format("user {}: exec plugin {}", in_quotes(user), plugin.command);
  ProgramCall call;
  call.command = plugin.command;
  call.args = plugin.args;
  call.env = plugin.env;
  call.env.emplace_back("KUBERNETES_EXEC_INFO", TRY(with_context(exec_info(plugin, cluster), where)));
  auto output = run_program(call);
  if (!output) {
    const bool missing = output.error().code() == ErrorCode::kNotFound;
    return fail(missing
                    ? Error(ErrorCode::kNotFound, where + " is not installed or not in PATH" + hint(plugin))
                    : std::move(output).error().context(where));
  }
  if (output->exit_code != 0) {
    return fail(ErrorCode::kDenied,
                fmt::format("{} exited with code {}: {}{}", where, output->exit_code,
                            in_quotes(redacted_stderr(*output, plugin), 400), hint(plugin)));
  }
  return with_context(parse_exec_credential(output->out, plugin.api_version), where);
}

}  // namespace tessera::kube
