// cli/cluster/cluster_watch.h
//
// Shows a cluster and redraws it in place whenever it changes.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster.h"
#include "cli/output/terminal.h"

namespace tessera::cli {

struct WatchOptions {
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

// Shows a frame after each change of the cluster. Returns 0 after Ctrl-C or SIGTERM, or when the
// reader closes the output. Returns 1 if the cluster cannot be read at all.
//
// On a terminal, each frame replaces the previous one and is cut to the screen's size; the last
// frame stays. Elsewhere, frames are separated by an empty line.
//
// A cluster is read with API watches, not by listing it repeatedly. Saved files are read again when
// they have changed.
int watch_cluster(const ClusterOptions& options, const ClusterQuery& query, const WatchOptions& watch,
                  const MakeFrame& make_frame, std::ostream& out, std::ostream& err);

// Returns `text` with the escape sequences that draw it over the current screen. Keeps at most
// `rows` lines (0: all).
std::string redrawn(const std::string& text, unsigned rows);

}  // namespace tessera::cli
