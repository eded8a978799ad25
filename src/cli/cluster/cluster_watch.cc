#include "cli/cluster/cluster_watch.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <ostream>
#include <utility>

#include "base/signals.h"
#include "base/strings.h"
#include "cli/cluster/cluster_api.h"
#include "cli/cluster/cluster_store.h"
#include "http/event_loop.h"
#include "kube/reflector.h"
#include "kube/request.h"

namespace tessera::cli {

namespace {

// The other screen of the terminal, so that what stood there before comes back; without a cursor, and without
// wrapping: a line that is too long must not take the place of two.
constexpr std::string_view kEnterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view kLeaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l";

// Where frames go.
class Screen {
 public:
  Screen(std::ostream& out, std::ostream& err, int fd) : out_(out), err_(err), fd_(fd) {
    if (Terminal::of(fd_).is_terminal) {
      out_ << kEnterScreen << std::flush;
      entered_ = true;
    }
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() {
    if (entered_) {
      out_ << kLeaveScreen << last_.text << std::flush;
    }
    for (const std::string& warning : last_.warnings) {
      err_ << "warning: " << warning << "\n";
    }
  }

  void show(Frame frame) {
    if (!entered_ && frame.text != last_.text) {
      out_ << (last_.text.empty() ? "" : "\n") << frame.text << std::flush;
    }
    last_ = std::move(frame);
    draw();
  }

  // The last frame again, on a terminal that may have another size now.
  void draw() {
    if (entered_) {
      out_ << redrawn(last_.text, Terminal::of(fd_).rows) << std::flush;
    }
  }

  // Whether somebody still takes what is written.
  [[nodiscard]] bool heard() const { return out_.good(); }

 private:
  std::ostream& out_;
  std::ostream& err_;
  int fd_;
  bool entered_ = false;
  Frame last_;
};

// Waits, at most so long, for something to react to; false when the watch is to end: a signal came, or nobody
// reads any more (`| head`), which is not learned by writing as long as nothing changes.
bool go_on(SignalWatch& signals, std::optional<Screen>& screen, int out_fd, std::chrono::milliseconds wait) {
  std::array waiting{pollfd{.fd = signals.fd(), .events = POLLIN, .revents = 0},
                     pollfd{.fd = out_fd, .events = 0, .revents = 0}};
  ::poll(waiting.data(), waiting.size(), static_cast<int>(wait.count()));
  if ((waiting[1].revents & (POLLERR | POLLHUP)) != 0) {
    return false;
  }
  while (const auto number = signals.read()) {
    if (*number != SIGWINCH) {
      return false;
    }
    if (screen) {
      screen->draw();
    }
  }
  return !screen || screen->heard();
}

// Changes with either file.
std::string files_version(const std::string& directory) {
  std::string version;
  for (const char* name : {"/nodes.json", "/pods.json"}) {
    struct stat facts{};
    if (::stat((directory + name).c_str(), &facts) == 0) {
      version += fmt::format("{}.{}.{};", facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec, facts.st_size);
    }
  }
  return version;
}

Status watch_files(const ClusterOptions& options, const ClusterQuery& query, const WatchOptions& watch,
                   const MakeFrame& make_frame, SignalWatch& signals, std::ostream& out, std::ostream& err) {
  std::optional<Screen> screen;
  std::string shown;
  do {
    const std::string version = files_version(options.file);
    if (version == shown) {
      continue;
    }
    auto cluster = read_cluster(options, query);
    // A file that is being written is read again when it is complete.
    if (!cluster && screen) {
      continue;
    }
    Cluster now = TRY(std::move(cluster));
    Frame frame = TRY(make_frame(std::move(now), Terminal::of(watch.fd)));
    if (!screen) {
      screen.emplace(out, err, watch.fd);
    }
    screen->show(std::move(frame));
    shown = version;
  } while (go_on(signals, screen, watch.fd, std::chrono::seconds(watch.interval_s)));
  return {};
}

Status watch_api(const ClusterOptions& options, const ClusterQuery& query, const WatchOptions& watch,
                 const MakeFrame& make_frame, SignalWatch& signals, std::ostream& out, std::ostream& err) {
  http::EventLoop loop;
  kube::Client client = TRY(connect(loop, options));
  ClusterStore store(query, TRY(ask_settings(client, options)));
  kube::Reflector nodes(client, {.path = kube::node_path(""), .field_selector = node_fields(query)},
                        store.nodes());
  kube::Reflector pods(
      client, {.path = kube::pod_path(query.namespace_name, ""), .field_selector = pod_fields(query)},
      store.pods());
  nodes.start();
  pods.start();
  std::optional<Screen> screen;
  std::optional<std::uint64_t> shown;
  // Later on the reflectors heal by themselves; what was never read is told at once.
  const auto failed = [&] {
    return (!nodes.synced() && nodes.problem()) || (!pods.synced() && pods.problem());
  };
  bool going = true;
  while (going) {
    const bool synced = nodes.synced() && pods.synced();
    if (failed()) {
      return fail(!nodes.synced() && nodes.problem() ? *nodes.problem() : *pods.problem());
    }
    if (synced && (watch.always || shown != store.version())) {
      shown = store.version();
      Cluster cluster = store.snapshot();
      cluster.default_namespace = client.default_namespace();
      Frame frame = TRY(make_frame(std::move(cluster), Terminal::of(watch.fd)));
      if (!screen) {
        screen.emplace(out, err, watch.fd);
      }
      screen->show(std::move(frame));
    }
    // Signals are looked for ten times a second; changes wait for the interval, the first frame does not.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(synced ? watch.interval_s : 0);
    do {
      loop.run_until([&] { return failed() || (!screen && nodes.synced() && pods.synced()); },
                     std::chrono::milliseconds(100));
      going = go_on(signals, screen, watch.fd, std::chrono::milliseconds(0));
    } while (going && std::chrono::steady_clock::now() < until);
  }
  return {};
}

}  // namespace

std::string redrawn(const std::string& text, unsigned rows) {
  std::vector<std::string_view> lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) {
    lines.pop_back();
  }
  // The last row stays empty: a newline there would scroll.
  const std::size_t room = rows > 1 ? rows - 1 : lines.size();
  std::string out = "\x1b[H";
  const bool cut = lines.size() > room;
  const std::size_t shown = cut ? room - 1 : lines.size();
  for (std::size_t i = 0; i < shown; ++i) {
    out.append(lines[i]).append("\x1b[K\n");
  }
  if (cut) {
    out += fmt::format("... {} more lines\x1b[K\n", lines.size() - shown);
  }
  return out + "\x1b[J";
}

int watch_cluster(const ClusterOptions& options, const ClusterQuery& query, const WatchOptions& watch,
                  const MakeFrame& make_frame, std::ostream& out, std::ostream& err) {
  auto signals = SignalWatch::create({SIGINT, SIGTERM, SIGWINCH});
  const Status done = !signals ? Status(fail(std::move(signals).error()))
                      : options.file.empty()
                          ? watch_api(options, query, watch, make_frame, *signals, out, err)
                          : watch_files(options, query, watch, make_frame, *signals, out, err);
  if (!done) {
    err << "error: " << done.error().text() << "\n";
    return 1;
  }
  return 0;
}

}  // namespace tessera::cli
