#include "cli/cluster_api.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/version.h"
#include "kube/access.h"
#include "kube/request.h"

namespace tessera::cli {

namespace {

constexpr std::size_t kPageItems = 500;

// One pass over a collection; false when the server has forgotten the version that the pages belong to.
Result<bool> list_pages(kube::Client& client, const std::string& path, const std::string& fields,
                        kube::ObjectSink& sink) {
  kube::ListDecoder decoder;
  json::PaddedBuffer buffer;
  std::string token;
  do {
    kube::Request request = kube::get_request(path);
    request.query = fmt::format("limit={}", kPageItems);
    if (!fields.empty()) {
      request.query += "&fieldSelector=" + kube::percent_encoded(fields);
    }
    if (!token.empty()) {
      request.query += "&continue=" + kube::percent_encoded(token);
    }
    request.what = "list " + path;
    request.buffer = std::move(buffer);
    Result<kube::Reply> reply = client.fetch(std::move(request));
    if (!reply) {
      if (!token.empty() && reply.error().code() != ErrorCode::kDenied) {
        return false;
      }
      return fail(std::move(reply).error());
    }
    kube::ListPage page =
        TRY(with_context(decoder.decode(reply->body.view(), sink, keep_or_tell(sink)), "list " + path));
    token = std::move(page.continue_token);
    buffer = std::move(reply->body);
  } while (!token.empty());
  return true;
}

}  // namespace

kube::ListDecoder::OnItem keep_or_tell(kube::ObjectSink& sink) {
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

Result<kube::Client> connect(http::EventLoop& loop, const ClusterOptions& options) {
  // A person waits: what goes wrong is told by the command itself.
  log::Options quiet;
  quiet.level = log::Level::kError;
  TRY(log::configure(quiet));
  kube::AccessOptions where;
  where.kubeconfig = options.kubeconfig;
  where.context = options.context;
  kube::ClusterAccess access = TRY(kube::find_access(where));
  return kube::Client::create(loop, std::move(access), {.user_agent = "tessera/" + std::string(version())});
}

Status list_cluster(kube::Client& client, ClusterStore& store) {
  const ClusterQuery& query = store.query();
  const std::string nodes = kube::node_path("");
  if (!TRY(list_pages(client, nodes, node_fields(query), store.nodes()))) {
    store.clear_nodes();
    if (!TRY(list_pages(client, nodes, node_fields(query), store.nodes()))) {
      return fail(ErrorCode::kUnavailable, "the list of nodes changed faster than it could be read");
    }
  }
  const std::string pods = kube::pod_path(query.namespace_name, "");
  if (!TRY(list_pages(client, pods, pod_fields(query), store.pods()))) {
    store.clear_pods();
    if (!TRY(list_pages(client, pods, pod_fields(query), store.pods()))) {
      return fail(ErrorCode::kUnavailable, "the list of pods changed faster than it could be read");
    }
  }
  return {};
}

}  // namespace tessera::cli
