// kube/kubeconfig.h
//
// Reads and merges kubeconfig files like kubectl.
//
//   const Kubeconfig config = TRY(load_kubeconfig({"/root/.kube/config", "extra.yaml"}));
//   const ClusterAccess access = TRY(config.access("staging"));     // "" for the current context
//
// Loading does not open certificates, run programs or resolve names. That happens only when an
// entry is used. Errors name the file, the entry and the field, but never the content of a secret.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tessera::kube {

// Inline data, or the absolute path of a file. If both are set, the inline data is used, as in
// kubectl.
struct DataOrFile {
  std::string data;
  std::string file;

  [[nodiscard]] bool empty() const { return data.empty() && file.empty(); }
  // Returns the data. Reads the file each time, because it may be rotated.
  [[nodiscard]] Result<std::string> read() const;
};

// A cluster. An invalid entry (cluster, user or context) is kept together with its error
// (`unusable`). access() returns that error only if it needs the entry, so other entries of the
// file still work.
struct KubeconfigCluster {
  std::string name;
  std::string file;  // the file that defines it, for messages
  std::optional<Error> unusable;
  std::string server;
  std::string tls_server_name;  // name to verify instead of the host of `server`
  bool insecure_skip_tls_verify = false;
  DataOrFile certificate_authority;  // empty: the system's root certificates
  std::string proxy_url;
  std::string exec_config_json;  // the extension client.authentication.k8s.io/exec, as JSON
};

struct ExecPlugin {
  std::string api_version;
  std::string command;  // an absolute path, or a name without a slash, which is searched in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;
  std::string install_hint;
  bool provide_cluster_info = false;
};

// The user to impersonate; sent in the headers of each request.
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
  std::string token_file;  // takes precedence over `token` if it can be read
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

// Everything needed to access one API server as one user.
struct ClusterAccess {
  std::string context;         // "" if there is none, as inside a cluster
  std::string namespace_name;  // "default" if none is configured
  KubeconfigCluster cluster;
  User user;
};

struct Kubeconfig {
  std::string current_context;
  std::vector<std::string> files;  // the files that exist
  std::vector<KubeconfigCluster> clusters;
  std::vector<User> users;
  std::vector<Context> contexts;

  // Returns the cluster and the user of `context`, or of the current context if `context` is "".
  // Returns kNotFound if the context, its cluster or its user does not exist; the message lists the
  // existing ones. Returns kInvalid if one of them is invalid.
  [[nodiscard]] Result<ClusterAccess> access(std::string_view context = "") const;
};

// Parses the text of one file. Relative paths are resolved from the directory of `file`.
Result<Kubeconfig> parse_kubeconfig(std::string_view yaml, const std::string& file);

// Merges the files in order. The first file that defines an entry, or the current context, takes
// precedence. Later files cannot add fields to that entry. Missing files are skipped. Returns
// kNotFound if no file exists.
Result<Kubeconfig> load_kubeconfig(const std::vector<std::string>& files);

}  // namespace tessera::kube
