#include "cli/cluster/cluster_watch.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
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
#include "cli/output/messages.h"
#include "cli/output/safe_output.h"
#include "http/event_loop.h"
#include "kube/reflector.h"
#include "kube/request.h"

namespace tessera::cli {

namespace {

// Switch to the alternate screen of the terminal and back, so that the previous content reappears
// at the end. Also hide the cursor, and disable wrapping so that a long line takes only one row.
constexpr std::string_view kEnterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view kLeaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l";

// Shows frames on a terminal, or writes them one after another elsewhere.
class Screen {
 public:
  Screen(std::ostream& out, std::ostream& err, int fd) : out_(out), err_(err), fd_(fd) {
    if (Terminal::of(fd_).is_terminal) {
      write_control(out_, kEnterScreen);
      out_ << std::flush;
      entered_ = true;
    }
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() {
    if (entered_) {
      write_control(out_, kLeaveScreen);
      out_ << last_.text << std::flush;
    }
    report_warnings(last_.warnings, err_);
  }

  void show(Frame frame) {
    if (!entered_ && frame.text != last_.text) {
      out_ << (last_.text.empty() ? "" : "\n") << frame.text << std::flush;
    }
    last_ = std::move(frame);
    if (entered_) {
      write_control(out_, redrawn(printable_lines(last_.text), Terminal::of(fd_).rows));
      out_ << std::flush;
    }
  }

  [[nodiscard]] bool writable() const { return out_.good(); }

 private:
  std::ostream& out_;
  std::ostream& err_;
  int fd_;
  bool entered_ = false;
  Frame last_;
};

enum class Next { kWait, kRedraw, kEnd };

// Waits up to `wait` for a signal or for the reader to close the output. Returns kRedraw if the
// terminal was resized. Returns kEnd on another signal, or when the reader is gone (`| head`).
// Writing alone would not detect a closed reader while nothing changes.
Next wait_for_signal(SignalWatch& signals, const std::optional<Screen>& screen, int out_fd,
                     std::chrono::milliseconds wait) {
  std::array waiting{pollfd{.fd = signals.fd(), .events = POLLIN, .revents = 0},
                     pollfd{.fd = out_fd, .events = 0, .revents = 0}};
  ::poll(waiting.data(), waiting.size(), static_cast<int>(wait.count()));
  if ((waiting[1].revents & (POLLERR | POLLHUP)) != 0 || (screen && !screen->writable())) {
    return Next::kEnd;
  }
  Next next = Next::kWait;
  while (const auto number = signals.read()) {
    if (*number != SIGWINCH) {
      return Next::kEnd;
    }
    next = Next::kRedraw;
  }
  return next;
}

// Returns the terminal for which frames are made. They leave the last column free: after a character
// there, the sequence that erases the rest of the line would erase that character.
Terminal frame_terminal(int fd) {
  Terminal terminal = Terminal::of(fd);
  terminal.columns -= terminal.columns > 0 ? 1 : 0;
  return terminal;
}

// Returns a text that differs whenever one of the files has changed.
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
  std::optional<std::string> shown;  // the version of the last frame
  Next next = Next::kWait;
  do {
    const std::string version = files_version(options.file);
    if (version == shown && next != Next::kRedraw) {
      continue;
    }
    auto cluster = read_cluster(options, query);
    // The file may be only partly written; it is read again when it changes.
    if (!cluster && screen) {
      continue;
    }
    Cluster now = TRY(std::move(cluster));
    Frame frame = TRY(make_frame(std::move(now), frame_terminal(watch.fd)));
    if (!screen) {
      screen.emplace(out, err, watch.fd);
    }
    screen->show(std::move(frame));
    shown = version;
  } while ((next = wait_for_signal(signals, screen, watch.fd, std::chrono::seconds(watch.interval_s))) !=
           Next::kEnd);
  return {};
}

// Some frames ask other programs in addition to the watches. After the first frame, such a request
// may fail for a while; the last frame then stays.
bool may_pass(const Error& error) {
  return error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kTimeout;
}

Status watch_api(const ClusterOptions& options, const ClusterQuery& query, const WatchOptions& watch,
                 const MakeFrame& make_frame, SignalWatch& signals, std::ostream& out, std::ostream& err) {
  http::EventLoop loop;
  kube::Client client = TRY(connect(loop, options));
  ClusterStore store(query, TRY(ask_settings(client, options)));
  const Restriction restriction =
      query.allow_restricted ? TRY(find_restriction(client, query)) : Restriction{};
  const std::string& pods_in =
      restriction.only_namespace.empty() ? query.namespace_name : restriction.only_namespace;
  kube::Reflector nodes(client, {.path = kube::node_path(""), .field_selector = node_fields(query)},
                        store.nodes());
  kube::Reflector pods(client, {.path = kube::pod_path(pods_in, ""), .field_selector = pod_fields(query)},
                       store.pods());
  if (!restriction.nodes) {
    nodes.start();
  }
  pods.start();
  const auto all_synced = [&] { return (restriction.nodes || nodes.synced()) && pods.synced(); };
  std::optional<Screen> screen;
  std::optional<std::uint64_t> shown;
  // After the first sync the reflectors recover by themselves. Before it, an error ends the
  // command.
  const auto failed = [&] {
    return (!nodes.synced() && nodes.problem()) || (!pods.synced() && pods.problem());
  };
  Next next = Next::kWait;
  while (next != Next::kEnd) {
    const bool synced = all_synced();
    if (failed()) {
      return fail(!nodes.synced() && nodes.problem() ? *nodes.problem() : *pods.problem());
    }
    if (synced && (watch.always || next == Next::kRedraw || shown != store.version())) {
      shown = store.version();
      Cluster cluster = store.snapshot();
      cluster.default_namespace = client.default_namespace();
      cluster.restriction = restriction;
      auto frame = make_frame(std::move(cluster), frame_terminal(watch.fd));
      if (!frame && !(screen && may_pass(frame.error()))) {
        return fail(std::move(frame).error());
      }
      if (!screen) {
        screen.emplace(out, err, watch.fd);
      }
      if (frame) {
        screen->show(*std::move(frame));
      }
    }
    // Check for signals ten times a second. The first frame is drawn at once; later frames wait for
    // the interval.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(synced ? watch.interval_s : 0);
    do {
      loop.run_until([&] { return failed() || (!screen && all_synced()); }, std::chrono::milliseconds(100));
      next = wait_for_signal(signals, screen, watch.fd, std::chrono::milliseconds(0));
    } while (next == Next::kWait && std::chrono::steady_clock::now() < until);
  }
  return {};
}

}  // namespace

std::string redrawn(const std::string& text, unsigned rows) {
  std::vector<std::string_view> lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) {
    lines.pop_back();
  }
  // The last row stays empty, because a newline there would scroll.
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
    return report_error(options.file.empty() ? with_cluster(options, done.error()) : done.error(), err);
  }
  return 0;
}

void add_watch_options(CLI::App& command, WatchOptions& options, const std::string& more_names) {
  command.add_flag("--watch,-w" + more_names, options.watch,
                   "Keep running and redraw when something changes");
  command
      .add_option("--interval", options.interval_s, "With --watch: redraw at most once in this many seconds")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
}

int show_cluster(const ClusterOptions& options, const ClusterQuery& query, const WatchOptions& watch,
                 const MakeFrame& make_frame, std::ostream& out, std::ostream& err,
                 const Terminal& terminal) {
  if (watch.watch) {
    return watch_cluster(options, query, watch, make_frame, out, err);
  }
  auto cluster = read_cluster(options, query);
  if (!cluster) {
    return report_error(cluster.error(), err);
  }
  const auto frame = make_frame(*std::move(cluster), terminal);
  if (!frame) {
    return report_error(frame.error(), err);
  }
  out << frame->text << std::flush;
  report_warnings(frame->warnings, err);
  return 0;
}

}  // namespace tessera::cli
