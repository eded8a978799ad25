#include "cli/cluster/cluster_api.h"

#include <fmt/core.h>

#include <functional>
#include <utility>

#include "base/log.h"
#include "base/version.h"
#include "kube/access.h"
#include "kube/request.h"

namespace tessera::cli {

namespace {

constexpr std::size_t kPageItems = 500;

kube::AccessOptions access_options(const ClusterOptions& options) {
  kube::AccessOptions where;
  where.kubeconfig = options.kubeconfig;
  where.context = options.context;
  return where;
}

// Lists a collection once, page by page. `selector` is a part of the query, already encoded. Adds
// the number of pages received to `pages`.
Status list_pages(kube::Client& client, const std::string& path, const std::string& selector,
                  kube::ObjectSink& sink, std::size_t& pages) {
  kube::ListDecoder decoder;
  json::PaddedBuffer buffer;
  std::string token;
  std::size_t page_items = kPageItems;
  while (true) {
    kube::Request request = kube::get_request(path);
    request.query = fmt::format("limit={}", page_items);
    if (!selector.empty()) {
      request.query += "&" + selector;
    }
    if (!token.empty()) {
      request.query += "&continue=" + kube::percent_encoded(token);
    }
    request.what = "list " + path;
    request.buffer = std::exchange(buffer, {});
    Result<kube::Reply> reply = client.fetch(std::move(request));
    if (!reply) {
      if (reply.error().code() != ErrorCode::kExhausted || page_items == 1) {
        return fail(reply.error());
      }
      page_items /= 2;  // the objects are large
      continue;
    }
    kube::ListPage page =
        TRY(with_context(decoder.decode(reply->body.view(), sink, keep_or_report(sink)), "list " + path));
    ++pages;
    token = std::move(page.continue_token);
    if (token.empty()) {
      return {};
    }
    buffer = std::move(reply->body);
  }
}

// Lists a whole collection. The server drops the version that the pages belong to after a few
// minutes, so a list that was interrupted between pages is read again from the start, once.
Status list_all(kube::Client& client, const std::string& path, const std::string& fields,
                kube::ObjectSink& sink, const std::function<void()>& clear) {
  const std::string selector = fields.empty() ? "" : "fieldSelector=" + kube::percent_encoded(fields);
  std::size_t pages = 0;
  Status done = list_pages(client, path, selector, sink, pages);
  if (done || pages == 0 || done.error().code() == ErrorCode::kDenied) {
    return done;
  }
  clear();
  return with_context(list_pages(client, path, selector, sink, pages), "interrupted twice");
}

// Lists nodes, and pods of all namespaces or of the one of `query`. If the user may not do that and
// the query allows it, lists the pods of the user's own namespace instead.
Result<Restriction> list_permitted(const kube::Client& client, const ClusterQuery& query,
                                   const std::function<Status()>& list_nodes,
                                   const std::function<Status(const std::string&)>& list_pods) {
  const auto denied = [&](const Status& done) {
    return query.allow_restricted && !done && done.error().code() == ErrorCode::kDenied;
  };
  Restriction restriction;
  const Status nodes = list_nodes();
  restriction.nodes = denied(nodes);
  if (!nodes && !restriction.nodes) {
    return fail(nodes.error());
  }
  const Status pods = list_pods(query.namespace_name);
  if (pods) {
    return restriction;
  }
  if (!denied(pods) || !query.namespace_name.empty()) {
    return fail(pods.error());
  }
  restriction.only_namespace = query.own_namespace.empty() ? client.default_namespace() : query.own_namespace;
  if (const Status own = list_pods(restriction.only_namespace); !own) {
    return fail(own.error().code(),
                fmt::format("{}; if your credentials are right, ask for a RoleBinding to the ClusterRole "
                            "tessera-viewer in namespace {}, or give another namespace with -n",
                            own.error().text(), restriction.only_namespace));
  }
  return restriction;
}

}  // namespace

std::string Restriction::text() const {
  if (!any()) {
    return "";
  }
  const std::string pods = only_namespace.empty() ? "" : "pods outside namespace " + only_namespace;
  return fmt::format(
      "Not shown: {}{}{}, which you may not list; ask for a ClusterRoleBinding to the ClusterRole "
      "tessera-viewer",
      nodes ? "nodes" : "", nodes && !pods.empty() ? " and " : "", pods);
}

kube::ListDecoder::OnItem keep_or_report(kube::ObjectSink& sink) {
  return [&sink](const kube::ObjectMeta& meta, const Status& decoded) {
    if (decoded) {
      sink.keep(meta);
    } else {
      sink.unreadable(meta, decoded.error());
    }
  };
}

std::string node_fields(const ClusterQuery& query) {
  return query.node.empty() ? "" : "metadata.name=" + query.node;
}

std::string pod_fields(const ClusterQuery& query) {
  std::string fields = "status.phase!=Succeeded,status.phase!=Failed";
  return query.node.empty() ? fields : fields + ",spec.nodeName=" + query.node;
}

Error with_cluster(const ClusterOptions& options, const Error& error) {
  // Other errors have the same code, so the text decides. It comes from the HTTP client.
  constexpr std::string_view kNoConnection = "cannot connect to ";
  const bool no_connection =
      error.code() == ErrorCode::kUnavailable && error.message().starts_with(kNoConnection);
  const auto access = kube::find_access(access_options(options));
  if ((!no_connection && error.code() != ErrorCode::kTimeout) || !access) {
    return error;
  }
  const std::string& message = error.message();
  const std::size_t address = no_connection ? message.find(": ", kNoConnection.size()) : std::string::npos;
  const std::string where = access->context.empty()
                                ? "the account of this pod"
                                : fmt::format("context {} of {}", access->context, access->cluster.file);
  return {error.code(),
          fmt::format("cannot reach the cluster at {} ({}): {}; try \"kubectl cluster-info{}{}\"",
                      access->cluster.server, where,
                      address == std::string::npos ? message : message.substr(address + 2),
                      options.kubeconfig.empty() ? "" : " --kubeconfig " + options.kubeconfig,
                      options.context.empty() ? "" : " --context " + options.context)};
}

Result<kube::Client> connect(http::EventLoop& loop, const ClusterOptions& options) {
  // The command prints its own error messages, so the client's log lines are suppressed.
  log::Options quiet;
  quiet.level = log::Level::kError;
  TRY(log::configure(quiet));
  kube::ClusterAccess access = TRY(kube::find_access(access_options(options)));
  return kube::Client::create(loop, std::move(access), {.user_agent = "tessera/" + std::string(version())});
}

Result<ClusterSettings> ask_settings(kube::Client& client, const ClusterOptions& options) {
  ClusterStore own_pods(placers_only(), {.tessera_namespace = options.tessera_namespace});
  std::size_t pages = 0;
  // resourceVersion=0 allows a response from the server's cache. That is recent enough, because a
  // changed setting replaces these pods.
  const Status done = list_pages(client, kube::pod_path("", ""),
                                 "resourceVersion=0&labelSelector=" + kube::percent_encoded(kPlacerLabels),
                                 own_pods.pods(), pages);
  if (!done && done.error().code() != ErrorCode::kDenied) {
    return fail(done.error());
  }
  return settings_of(options, own_pods.take());
}

Result<Restriction> list_cluster(kube::Client& client, ClusterStore& store) {
  const ClusterQuery& query = store.query();
  Restriction restriction = TRY(list_permitted(
      client, query,
      [&] {
        return list_all(client, kube::node_path(""), node_fields(query), store.nodes(),
                        [&] { store.clear_nodes(); });
      },
      [&](const std::string& namespace_name) {
        return list_all(client, kube::pod_path(namespace_name, ""), pod_fields(query), store.pods(),
                        [&] { store.clear_pods(); });
      }));
  if (!query.ended_fields.empty()) {
    const std::string space = query.ended_in.empty() ? client.default_namespace() : query.ended_in;
    TRY(list_all(client, kube::pod_path(space, ""), query.ended_fields, store.pods(), [] {}));
  }
  return restriction;
}

Result<Restriction> find_restriction(kube::Client& client, const ClusterQuery& query) {
  const auto ask = [&](const std::string& path) -> Status {
    kube::Request request = kube::get_request(path);
    request.query = "limit=1";
    request.what = "list " + path;
    TRY(client.fetch(std::move(request)));
    return {};
  };
  return list_permitted(
      client, query, [&] { return ask(kube::node_path("")); },
      [&](const std::string& namespace_name) { return ask(kube::pod_path(namespace_name, "")); });
}

}  // namespace tessera::cli
