#include "cli/cluster/find_names.h"

#include <fmt/core.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <csignal>

#include "cli/cluster/cluster_api.h"
#include "http/event_loop.h"
#include "kube/access.h"
#include "kube/request.h"

namespace tessera::cli {

namespace {

namespace json = boost::json;

constexpr std::size_t kPageItems = 500;

const json::value* member(const json::value& value, std::string_view key) {
  const json::object* object = value.if_object();
  return object == nullptr ? nullptr : object->if_contains(key);
}

std::string text_of(const json::value* value) {
  const json::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? "" : std::string(text->data(), text->size());
}

// Adds the names in a page. A server that has no tables sends the objects instead.
void add_names(const json::value& page, std::vector<std::string>& names) {
  const json::value* rows = member(page, "rows");
  const json::value* items = member(page, "items");
  if (rows != nullptr && rows->is_array()) {
    for (const json::value& row : rows->get_array()) {
      const json::value* cells = member(row, "cells");
      if (cells != nullptr && cells->is_array() && !cells->get_array().empty()) {
        names.push_back(text_of(&cells->get_array().front()));
      }
    }
  } else if (items != nullptr && items->is_array()) {
    for (const json::value& item : items->get_array()) {
      const json::value* meta = member(item, "metadata");
      names.push_back(meta == nullptr ? "" : text_of(member(*meta, "name")));
    }
  }
}

std::string path_of(const NameQuery& query, const std::string& default_namespace) {
  switch (query.kind) {
    case NameKind::kNodes:
      return kube::node_path("");
    case NameKind::kNamespaces:
      return "/api/v1/namespaces";
    default:
      return kube::pod_path(query.all_namespaces           ? ""
                            : query.namespace_name.empty() ? default_namespace
                                                           : query.namespace_name,
                            "");
  }
}

Status list_names(const NameQuery& query, std::vector<std::string>& names) {
  http::EventLoop loop;
  kube::Client client = TRY(connect(loop, {.kubeconfig = query.kubeconfig, .context = query.context}));
  std::string token;
  do {
    kube::Request request = kube::get_request(path_of(query, client.default_namespace()));
    request.accept = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
    request.query = fmt::format("limit={}&includeObject=None", kPageItems);
    if (query.kind == NameKind::kPods) {
      request.query += "&fieldSelector=" + kube::percent_encoded(pod_fields({}));
    }
    if (!token.empty()) {
      request.query += "&continue=" + kube::percent_encoded(token);
    }
    kube::Reply reply = TRY(client.fetch(std::move(request)));
    boost::system::error_code invalid;
    const json::value page = json::parse(reply.body.view().text(), invalid);
    if (invalid) {
      return fail(ErrorCode::kInvalid, "the list is not JSON");
    }
    add_names(page, names);
    const json::value* meta = member(page, "metadata");
    token = meta == nullptr ? "" : text_of(member(*meta, "continue"));
  } while (!token.empty() && names.size() < kMostNames);
  return {};
}

Status saved_names(const NameQuery& query, std::vector<std::string>& names) {
  ClusterQuery everything;
  everything.want_pod = alloc::occupies;
  const Cluster cluster = TRY(read_cluster({.file = query.file}, everything));
  for (const objects::NodeFacts& node : cluster.nodes) {
    if (query.kind == NameKind::kNodes) {
      names.push_back(node.spec.name);
    }
  }
  const std::string& space = query.namespace_name.empty() ? cluster.default_namespace : query.namespace_name;
  for (const alloc::PodSpec& pod : cluster.pods) {
    if (query.kind == NameKind::kNamespaces && std::ranges::find(names, pod.namespace_name) == names.end()) {
      names.push_back(pod.namespace_name);
    } else if (query.kind == NameKind::kPods && (query.all_namespaces || pod.namespace_name == space)) {
      names.push_back(pod.name);
    }
  }
  return {};
}

Status context_names(const NameQuery& query, std::vector<std::string>& names) {
  const kube::Kubeconfig config =
      TRY(kube::find_kubeconfig({.kubeconfig = query.kubeconfig, .context = {}, .environment = {}}));
  for (const kube::Context& context : config.contexts) {
    names.push_back(context.name);
  }
  return {};
}

}  // namespace

bool is_safe_name(std::string_view name) {
  static constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./@:";
  return !name.empty() && name.size() <= 256 && name.front() != '-' &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::vector<std::string> find_names(const NameQuery& query) {
  std::vector<std::string> names;
  const Status found = query.kind == NameKind::kContexts ? context_names(query, names)
                       : query.file.empty()              ? list_names(query, names)
                                                         : saved_names(query, names);
  if (!found) {
    return {};
  }
  std::erase_if(names, [](const std::string& name) { return !is_safe_name(name); });
  names.resize(std::min(names.size(), kMostNames));
  return names;
}

void end_process_after(std::chrono::seconds time) {
  std::signal(SIGALRM, [](int) { ::_exit(0); });
  const itimerval once{.it_interval = {}, .it_value = {.tv_sec = time.count(), .tv_usec = 0}};
  ::setitimer(ITIMER_REAL, &once, nullptr);
}

}  // namespace tessera::cli
