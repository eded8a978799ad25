// fault-proxy: the fault proxy for scripts. It prints its two URLs and runs until it is killed:
//
//   fault-proxy --upstream https://127.0.0.1:6443 --upstream-ca ca.crt --cert tls.crt --key tls.key
//   curl -d '{"kind":"half-chunk","target":"watch=","after_lines":3}' 127.0.0.1:$CONTROL/faults
//   curl -d '' 127.0.0.1:$CONTROL/cut
//
// POST /faults adds a fault (see fault.h for the format), DELETE /faults removes all. POST /cut,
// /reset, /freeze, /thaw, /refuse and /admit apply to all connections. GET /seen returns the
// requests so far.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>

#include "base/file.h"
#include "fault_proxy.h"
#include "http/event_loop.h"
#include "http/server.h"
#include "json/escape.h"

namespace {

using namespace tessera;

std::string seen_json(const proxy::FaultProxy& proxy) {
  std::string out = "[";
  for (const proxy::SeenRequest& request : proxy.seen()) {
    out += out.size() > 1 ? ",\n {\"method\":" : "{\"method\":";
    json::append_quoted(out, request.method);
    out += ",\"target\":";
    json::append_quoted(out, request.target);
    out += ",\"status\":";
    json::append_number(out, request.status);
    out += request.faulty ? ",\"faulty\":true}" : ",\"faulty\":false}";
  }
  return out + "]\n";
}

void control(proxy::FaultProxy& proxy, http::Request& request, http::Reply reply) {
  const std::string command = std::string(request.method()) + " " + std::string(request.path());
  if (command == "GET /seen") {
    reply.send({.body = seen_json(proxy)});
    return;
  }
  if (command == "POST /faults") {
    Result<proxy::Fault> fault = proxy::parse_fault(request.body().text());
    if (!fault) {
      reply.send_error(400, fault.error().text());
      return;
    }
    proxy.inject(*std::move(fault));
  } else if (command == "DELETE /faults") {
    proxy.clear();
  } else if (command == "POST /cut" || command == "POST /reset") {
    proxy.cut_all(/*reset=*/command == "POST /reset");
  } else if (command == "POST /freeze" || command == "POST /thaw") {
    proxy.freeze(command == "POST /freeze");
  } else if (command == "POST /refuse" || command == "POST /admit") {
    proxy.refuse(command == "POST /refuse");
  } else {
    reply.send_error(404, "unknown command " + command);
    return;
  }
  reply.send({.body = "{}\n"});
}

Status run(const proxy::ProxyOptions& options, std::uint16_t control_port) {
  proxy::FaultProxy proxy = TRY(proxy::FaultProxy::start(options));
  http::EventLoop loop;
  const http::Server server =
      TRY(http::Server::create(loop, {.port = control_port}, [&](http::Request& request, http::Reply reply) {
        control(proxy, request, std::move(reply));
      }));
  std::printf("proxy %s\ncontrol http://127.0.0.1:%d\n", proxy.url().c_str(), server.port());
  std::fflush(stdout);
  loop.run();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A proxy for tests that injects faults");
  proxy::ProxyOptions options;
  std::string ca_file;
  std::uint16_t control_port = 0;
  app.add_option("--upstream", options.upstream, "URL of the server, such as https://127.0.0.1:6443")
      ->required();
  app.add_option("--upstream-ca", ca_file, "file with the authority of the server's certificate");
  app.add_option("--cert", options.tls.certificate_file, "certificate for clients (default: plain HTTP)");
  app.add_option("--key", options.tls.key_file, "private key of --cert");
  app.add_option("--port", options.port, "port for clients (0: any free port)");
  app.add_option("--control", control_port, "port for commands (0: any free port)");
  CLI11_PARSE(app, argc, argv);
  if (!ca_file.empty()) {
    const Result<std::string> ca = read_file(ca_file);
    if (!ca) {
      std::fprintf(stderr, "fault-proxy: %s\n", ca.error().text().c_str());
      return 1;
    }
    options.upstream_ca = *ca;
  }
  const Status status = run(options, control_port);
  if (!status) {
    std::fprintf(stderr, "fault-proxy: %s\n", status.error().text().c_str());
    return 1;
  }
  return 0;
}
