// cli/cluster/cluster_watch.h
//
// Shows a cluster again whenever it changes, in place.
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
  unsigned interval_s = 2;  // not more often than this
  int fd = 1;               // where `out` goes
  bool always = false;      // also when no object has changed: frames show more than objects
};

// The text of one screen, and warnings about the cluster it shows.
struct Frame {
  std::string text;
  std::vector<std::string> warnings;
};

using MakeFrame = std::function<Result<Frame>(Cluster, const Terminal&)>;

// Until Ctrl-C, SIGTERM or the end of whoever reads, then 0. On a terminal each frame is drawn over the one
// before and cut to the screen's size; the last one stays. Elsewhere frames follow each other, an empty line
// between them.
//
// A cluster is watched, not listed again and again; saved files are read again when they have changed. 1 when
// it cannot be read at all.
int watch_cluster(const ClusterOptions& options, const ClusterQuery& query, const WatchOptions& watch,
                  const MakeFrame& make_frame, std::ostream& out, std::ostream& err);

// `text` as drawn over what is on the screen, at most `rows` lines of it (0: all).
std::string redrawn(const std::string& text, unsigned rows);

}  // namespace tessera::cli
