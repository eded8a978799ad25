#include "cli/cluster/own_namespace.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/strings.h"

namespace tessera::cli {

std::string OwnNamespace::name() const {
  if (!wanted_.empty()) {
    return wanted_;
  }
  const auto& candidates = placers_.empty() ? agents_ : placers_;
  for (const char* usual : {"tessera-system", "kube-system"}) {
    if (candidates.contains(usual)) {
      return usual;
    }
  }
  const auto pods = [this](const std::string& space) {
    const auto agents = agents_.find(space);
    const auto placers = placers_.find(space);
    return (agents == agents_.end() ? 0 : agents->second) + (placers == placers_.end() ? 0 : placers->second);
  };
  const auto most =
      std::ranges::max_element(candidates, {}, [&](const auto& candidate) { return pods(candidate.first); });
  return most == candidates.end() ? "" : most->first;
}

std::string OwnNamespace::warning() const {
  const std::string own = name();
  std::set<std::string> others;
  for (const auto* counts : {&placers_, &agents_}) {
    for (const auto& [space, count] : *counts) {
      if (space != own) {
        others.insert(in_quotes(space));
      }
    }
  }
  if (others.empty()) {
    return "";
  }
  constexpr std::size_t kListed = 3;
  std::vector<std::string> listed(
      others.begin(),
      std::next(others.begin(), static_cast<std::ptrdiff_t>(std::min(kListed, others.size()))));
  if (others.size() > kListed) {
    listed.push_back(fmt::format("{} more", others.size() - kListed));
  }
  return fmt::format(
      "pods in namespace {} have the labels of Tessera's pods and are ignored, because Tessera seems to run "
      "in "
      "namespace {}; if that is wrong, use --tessera-namespace",
      join_words(listed), in_quotes(own));
}

}  // namespace tessera::cli
