#include "kube/kubeconfig.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/strings.h"
#include "kube/base64.h"
#include "kube/yaml_fields.h"

namespace tessera::kube {

namespace {

constexpr std::size_t kMaxFileBytes = 4U << 20U;

// Resolves a path in `file` from the directory of `file`.
std::string resolved(const std::string& path, const std::string& file) {
  if (path.empty() || path.front() == '/') {
    return path;
  }
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(file, error);
  return (absolute.parent_path() / path).lexically_normal().string();
}

Result<DataOrFile> data_or_file(const YamlFields& fields, const std::string& file, const char* file_key,
                                const char* data_key) {
  DataOrFile source;
  source.file = resolved(TRY(fields.text(file_key)), file);
  const std::string data = TRY(fields.text(data_key));
  if (!data.empty()) {
    auto bytes = decode_base64(data);
    if (!bytes) {
      return fail(fields.wrong(data_key, bytes.error().message()));
    }
    source.data = std::move(*bytes);
  }
  return source;
}

Result<KubeconfigCluster> cluster_from(const YamlFields& fields, const std::string& file) {
  KubeconfigCluster cluster;
  cluster.server = TRY(fields.text("server"));
  cluster.tls_server_name = TRY(fields.text("tls-server-name"));
  cluster.insecure_skip_tls_verify = TRY(fields.boolean("insecure-skip-tls-verify"));
  cluster.certificate_authority =
      TRY(data_or_file(fields, file, "certificate-authority", "certificate-authority-data"));
  cluster.proxy_url = TRY(fields.text("proxy-url"));
  for (const YAML::Node& node : TRY(fields.list("extensions"))) {
    const YamlFields extension = TRY(YamlFields::of(node, fields.where() + ".extensions"));
    if (TRY(extension.text("name")) == "client.authentication.k8s.io/exec" && extension.has("extension")) {
      cluster.exec_config_json =
          TRY(yaml_to_json(extension.node("extension"), extension.where() + ".extension"));
    }
  }
  return cluster;
}

Result<ExecPlugin> exec_from(const YamlFields& fields, const std::string& file) {
  ExecPlugin exec;
  exec.api_version = TRY(fields.text("apiVersion"));
  if (exec.api_version != "client.authentication.k8s.io/v1" &&
      exec.api_version != "client.authentication.k8s.io/v1beta1") {
    return fail(
        fields.wrong("apiVersion", "is " + in_quotes(exec.api_version) +
                                       "; use client.authentication.k8s.io/v1 or v1beta1 (if the plugin "
                                       "supports only v1alpha1, update it and recreate the entry)"));
  }
  exec.command = TRY(fields.text("command"));
  if (exec.command.empty()) {
    return fail(fields.wrong("command", "is missing"));
  }
  if (exec.command.find('/') != std::string::npos) {
    exec.command = resolved(exec.command, file);
  }
  exec.args = TRY(fields.texts("args"));
  for (const YAML::Node& node : TRY(fields.list("env"))) {
    const YamlFields variable = TRY(YamlFields::of(node, fields.where() + ".env"));
    std::string name = TRY(variable.text("name"));
    if (name.empty() || name.find('=') != std::string::npos) {
      return fail(variable.wrong("name", "is not the name of an environment variable"));
    }
    exec.env.emplace_back(std::move(name), TRY(variable.text("value")));
  }
  exec.install_hint = TRY(fields.text("installHint"));
  exec.provide_cluster_info = TRY(fields.boolean("provideClusterInfo"));
  const std::string mode = TRY(fields.text("interactiveMode"));
  if (mode == "Always") {
    return fail(fields.wrong("interactiveMode",
                             "is Always, but Tessera runs plugins without a terminal; log in with the plugin "
                             "itself first and set IfAvailable or Never"));
  }
  if (mode != "Never" && mode != "IfAvailable" &&
      (!mode.empty() || exec.api_version == "client.authentication.k8s.io/v1")) {
    return fail(fields.wrong("interactiveMode", "is " + in_quotes(mode) + "; write Never or IfAvailable"));
  }
  return exec;
}

Result<Impersonation> impersonation_from(const YamlFields& fields) {
  Impersonation as;
  as.user = TRY(fields.text("as"));
  as.uid = TRY(fields.text("as-uid"));
  as.groups = TRY(fields.texts("as-groups"));
  if (fields.has("as-user-extra")) {
    const YamlFields extra = TRY(fields.mapping("as-user-extra"));
    for (const auto& field : fields.node("as-user-extra")) {
      if (!field.first.IsScalar()) {
        return fail(fields.wrong("as-user-extra", "has a key that is not text"));
      }
      const std::string key = field.first.Scalar();
      for (std::string& value : TRY(extra.texts(key.c_str()))) {
        as.extra.emplace_back(key, std::move(value));
      }
    }
  }
  if (as.user.empty() && (!as.uid.empty() || !as.groups.empty() || !as.extra.empty())) {
    return fail(fields.wrong("as", "is missing, but as-uid, as-groups or as-user-extra is set"));
  }
  return as;
}

Result<User> user_from(const YamlFields& fields, const std::string& file) {
  User user;
  user.client_certificate = TRY(data_or_file(fields, file, "client-certificate", "client-certificate-data"));
  user.client_key = TRY(data_or_file(fields, file, "client-key", "client-key-data"));
  if (user.client_certificate.empty() != user.client_key.empty()) {
    return fail(user.client_key.empty()
                    ? fields.wrong("client-key", "is missing, but client-certificate is set")
                    : fields.wrong("client-certificate", "is missing, but client-key is set"));
  }
  user.token = TRY(fields.text("token"));
  user.token_file = resolved(TRY(fields.text("tokenFile")), file);
  user.username = TRY(fields.text("username"));
  user.password = TRY(fields.text("password"));
  if (fields.has("exec")) {
    const YamlFields exec = TRY(fields.mapping("exec"));
    user.exec = TRY(exec_from(exec, file));
  }
  if (fields.has("auth-provider")) {
    return fail(fields.wrong("auth-provider", "was removed from Kubernetes in 1.26; use an exec plugin"));
  }
  user.impersonate = TRY(impersonation_from(fields));
  const bool has_token = !user.token.empty() || !user.token_file.empty();
  if (static_cast<int>(has_token) + static_cast<int>(!user.username.empty()) +
          static_cast<int>(user.exec.has_value()) >
      1) {
    return fail(ErrorCode::kInvalid, fields.where() +
                                         " has more than one of token, username and exec; keep one, because "
                                         "the API server accepts only one");
  }
  return user;
}

Result<Context> context_from(const YamlFields& fields, const std::string& /*file*/) {
  Context context;
  context.cluster = TRY(fields.text("cluster"));
  context.user = TRY(fields.text("user"));
  context.namespace_name = TRY(fields.text("namespace"));
  return context;
}

// Returns the entries of `list_key`: [{name: n, <body_key>: {...}}, ...].
template <class Entry>
Result<std::vector<Entry>> entries(const YamlFields& root, const char* list_key, const char* body_key,
                                   Result<Entry> (*read)(const YamlFields&, const std::string&),
                                   const std::string& file) {
  std::vector<Entry> result;
  for (const YAML::Node& node : TRY(root.list(list_key))) {
    const YamlFields item =
        TRY(YamlFields::of(node, fmt::format("{}: {}[{}]", file, list_key, result.size())));
    std::string name = TRY(item.text("name"));
    const std::string where = fmt::format("{}: {} {}", file, list_key, in_quotes(name));
    if (std::ranges::any_of(result, [&](const Entry& other) { return other.name == name; })) {
      return fail(ErrorCode::kInvalid, where + " is defined twice; rename one");
    }
    const YAML::Node body = item.has(body_key) ? item.node(body_key) : YAML::Node(YAML::NodeType::Null);
    Result<Entry> entry =
        YamlFields::of(body, where).and_then([&](const YamlFields& fields) { return read(fields, file); });
    if (entry) {
      result.push_back(*std::move(entry));
    } else {
      result.emplace_back().unusable = std::move(entry).error();
    }
    result.back().name = std::move(name);
    result.back().file = file;
  }
  return result;
}

Result<Kubeconfig> parse(std::string_view yaml, const std::string& file) {
  Kubeconfig config;
  config.files = {file};
  const YAML::Node document = YAML::Load(std::string(yaml));
  const YamlFields root = TRY(YamlFields::of(document, file));
  const std::string kind = TRY(root.text("kind"));
  if (!kind.empty() && kind != "Config") {
    return fail(ErrorCode::kInvalid, file + ": kind is " + in_quotes(kind) + ", so it is not a kubeconfig");
  }
  config.current_context = TRY(root.text("current-context"));
  config.clusters = TRY(entries<KubeconfigCluster>(root, "clusters", "cluster", cluster_from, file));
  config.users = TRY(entries<User>(root, "users", "user", user_from, file));
  config.contexts = TRY(entries<Context>(root, "contexts", "context", context_from, file));
  return config;
}

template <class Entry>
const Entry* find(const std::vector<Entry>& entries, std::string_view name) {
  const auto found = std::ranges::find_if(entries, [&](const Entry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

template <class Entry>
std::string names(const std::vector<Entry>& entries) {
  std::vector<std::string> all;
  for (const Entry& entry : entries) {
    all.push_back(in_quotes(entry.name));
  }
  return all.empty() ? "none" : join_words(all);
}

template <class Entry>
void merge(std::vector<Entry>& into, std::vector<Entry>&& from) {
  for (Entry& entry : from) {
    if (find(into, entry.name) == nullptr) {
      into.push_back(std::move(entry));
    }
  }
}

}  // namespace

Result<std::string> DataOrFile::read() const {
  return data.empty() && !file.empty() ? read_file(file, kMaxFileBytes) : Result<std::string>(data);
}

Result<ClusterAccess> Kubeconfig::access(std::string_view wanted) const {
  const std::string name(wanted.empty() ? std::string_view(current_context) : wanted);
  const std::string where = files.empty() ? "kubeconfig" : join_words(files);
  if (name.empty()) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{}: current-context is not set; run \"kubectl config use-context NAME\" or use "
                            "--context (existing contexts: {})",
                            where, names(contexts)));
  }
  const Context* context = find(contexts, name);
  if (context == nullptr) {
    return fail(ErrorCode::kNotFound, fmt::format("{}: context {} does not exist (existing contexts: {})",
                                                  where, in_quotes(name), names(contexts)));
  }
  if (context->unusable) {
    return fail(*context->unusable);
  }
  const std::string place = fmt::format("{}: context {}", context->file, in_quotes(name));
  const KubeconfigCluster* cluster = find(clusters, context->cluster);
  if (cluster == nullptr) {
    return fail(ErrorCode::kNotFound, fmt::format("{}: its cluster {} does not exist (existing clusters: {})",
                                                  place, in_quotes(context->cluster), names(clusters)));
  }
  if (cluster->unusable) {
    return fail(*cluster->unusable);
  }
  if (cluster->server.empty()) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}: cluster {} has no server; add server: https://HOST:PORT", cluster->file,
                            in_quotes(cluster->name)));
  }
  if (cluster->insecure_skip_tls_verify && !cluster->certificate_authority.empty()) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}: cluster {} has both certificate-authority and insecure-skip-tls-verify; "
                            "remove the latter",
                            cluster->file, in_quotes(cluster->name)));
  }
  ClusterAccess access;
  access.context = name;
  access.namespace_name = context->namespace_name.empty() ? "default" : context->namespace_name;
  access.cluster = *cluster;
  if (!context->user.empty()) {
    const User* user = find(users, context->user);
    if (user == nullptr) {
      return fail(ErrorCode::kNotFound, fmt::format("{}: its user {} does not exist (existing users: {})",
                                                    place, in_quotes(context->user), names(users)));
    }
    if (user->unusable) {
      return fail(*user->unusable);
    }
    access.user = *user;
  }
  return access;
}

Result<Kubeconfig> parse_kubeconfig(std::string_view yaml, const std::string& file) {
  try {
    return parse(yaml, file);
  } catch (const YAML::Exception& error) {
    // Report only the position: the text of a YAML error may quote the document, which contains
    // secrets.
    return fail(ErrorCode::kInvalid, error.mark.is_null()
                                         ? file + ": invalid YAML"
                                         : fmt::format("{}: invalid YAML at line {}, column {}", file,
                                                       error.mark.line + 1, error.mark.column + 1));
  }
}

Result<Kubeconfig> load_kubeconfig(const std::vector<std::string>& files) {
  Kubeconfig merged;
  for (const std::string& file : files) {
    auto text = read_file(file, kMaxFileBytes);
    if (!text) {
      if (text.error().code() == ErrorCode::kNotFound) {
        continue;
      }
      return fail(std::move(text).error());
    }
    Kubeconfig config = TRY(parse_kubeconfig(*text, file));
    if (merged.current_context.empty()) {
      merged.current_context = config.current_context;
    }
    merge(merged.clusters, std::move(config.clusters));
    merge(merged.users, std::move(config.users));
    merge(merged.contexts, std::move(config.contexts));
    merged.files.push_back(file);
  }
  if (merged.files.empty()) {
    return fail(ErrorCode::kNotFound,
                fmt::format("no kubeconfig: {}; set KUBECONFIG or use --kubeconfig",
                            files.empty() ? "neither KUBECONFIG nor HOME is set"
                                          : join_words(files) +
                                                (files.size() == 1 ? " does not exist" : " do not exist")));
  }
  return merged;
}

}  // namespace tessera::kube
