// cli/cluster/cluster_watch.h
//
// Shows a cluster once, or redraws it in place whenever it changes.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster.h"
#include "cli/output/terminal.h"

namespace CLI {
class App;
}

namespace tessera::cli {

struct WatchOptions {
  bool watch = false;       // false: show one frame
  unsigned interval_s = 2;  // minimum time between frames
  int fd = 1;               // the file descriptor behind `out`
  bool always = false;      // draw even if no object changed, because frames show metrics as well
};

// The text of one screen, and warnings about the cluster it shows.
struct Frame {
  std::string text;
  std::vector<std::string> warnings;
};

using MakeFrame = std::function<Result<Frame>(Cluster, const Terminal&)>;

// Adds the options --watch and --interval. `more_names` are further names of --watch (",-r").
void add_watch_options(CLI::App& command, WatchOptions& options, const std::string& more_names = "");

// Reads the cluster and shows one frame, or watches the cluster if `watch.watch` is set. Returns 0
// on success. Returns 1 and writes the reason to `err` if the cluster cannot be read or
// `make_frame` fails.
int show_cluster(const ClusterOptions& options, const ClusterQuery& query, const WatchOptions& watch,
                 const MakeFrame& make_frame, std::ostream& out, std::ostream& err, const Terminal& terminal);

// Shows a frame after each change of the cluster. Returns 0 after Ctrl-C or SIGTERM, or when the
// reader closes the output. Returns 1 if the cluster cannot be read at all.
//
// On a terminal, each frame replaces the previous one and is cut to the screen's size; the last
// frame stays. A new frame is made when the terminal is resized. Elsewhere, a frame is written only
// if its text has changed, and frames are separated by an empty line.
//
// A cluster is read with API watches, not by listing it repeatedly. Saved files are read again when
// they have changed.
int watch_cluster(const ClusterOptions& options, const ClusterQuery& query, const WatchOptions& watch,
                  const MakeFrame& make_frame, std::ostream& out, std::ostream& err);

// Returns `text` with the escape sequences that draw it over the current screen. Keeps at most
// `rows` lines (0: all).
std::string redrawn(const std::string& text, unsigned rows);

}  // namespace tessera::cli
