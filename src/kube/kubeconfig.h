// kube/kubeconfig.h
//
// kubeconfig files, read and merged as kubectl does.
//
//   const Kubeconfig config = TRY(load_kubeconfig({"/root/.kube/config", "extra.yaml"}));
//   const ClusterAccess access = TRY(config.access("staging"));     // "" for the current context
//
// Reading does not open certificates, run programs or resolve names: those come when they are needed. Errors
// name the file, the entry and the field, and never the content of a secret.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tessera::kube {

// Bytes given in place, or the absolute path of a file that holds them. In place wins, as in kubectl.
struct DataOrFile {
  std::string data;
  std::string file;

  [[nodiscard]] bool empty() const { return data.empty() && file.empty(); }
  // The bytes, now. A file that rotates is read anew with each call.
  [[nodiscard]] Result<std::string> read() const;
};

// Clusters, users and contexts that make no sense are kept with the reason: it is told to those who want to
// use them, and harms nobody else.
struct KubeconfigCluster {
  std::string name;
  std::string file;  // where it was read, for messages
  std::optional<Error> unusable;
  std::string server;
  std::string tls_server_name;  // name to verify in place of the host of `server`
  bool insecure_skip_tls_verify = false;
  DataOrFile certificate_authority;  // empty: the system's roots
  std::string proxy_url;
  std::string exec_config_json;  // the client.authentication.k8s.io/exec extension, for exec plugins
};

struct ExecPlugin {
  std::string api_version;
  std::string command;  // absolute if it was written with a slash, else to be found in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;
  std::string install_hint;
  bool provide_cluster_info = false;
};

// Whom to act as; sent as headers with each request.
struct Impersonation {
  std::string user;
  std::string uid;
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::string>> extra;
};

struct User {
  std::string name;
  std::string file;
  std::optional<Error> unusable;
  DataOrFile client_certificate;
  DataOrFile client_key;
  std::string token;
  std::string token_file;  // wins over `token` as soon as it can be read
  std::string username;
  std::string password;
  std::optional<ExecPlugin> exec;
  Impersonation impersonate;
};

struct Context {
  std::string name;
  std::string file;
  std::optional<Error> unusable;
  std::string cluster;
  std::string user;
  std::string namespace_name;
};

// All that is needed to talk to one API server as one user.
struct ClusterAccess {
  std::string context;         // "" when there was none, as inside a cluster
  std::string namespace_name;  // "default" unless something says otherwise
  KubeconfigCluster cluster;
  User user;
};

struct Kubeconfig {
  std::string current_context;
  std::vector<std::string> files;  // those that were there
  std::vector<KubeconfigCluster> clusters;
  std::vector<User> users;
  std::vector<Context> contexts;

  // Who and where `context` is, "" being the current one. kNotFound when it, its cluster or its user does not
  // exist (the message lists what does), kInvalid when one of them makes no sense.
  [[nodiscard]] Result<ClusterAccess> access(std::string_view context = "") const;
};

// One file's text; relative paths in it are taken from the directory of `file`.
Result<Kubeconfig> parse_kubeconfig(std::string_view yaml, const std::string& file);

// The files in order: the first to set a name or the current context wins, later ones cannot add to an entry.
// Files that do not exist are skipped; kNotFound when none does.
Result<Kubeconfig> load_kubeconfig(const std::vector<std::string>& files);

}  // namespace tessera::kube
