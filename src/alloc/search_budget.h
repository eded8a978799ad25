// alloc/search_budget.h
//
// Limits the search for the GPUs of a pod whose containers are placed separately.
//
//   SearchBudget budget;                                     // one for all nodes of a call
//   placer.fits_without(request, node, uids, budget)         // "no" if the budget is used up
//   budget.ever_ended()                                      // then "no" may be wrong
#pragma once

namespace tessera::alloc {

// The steps that the search for the GPUs of several parts may take in one call, on all nodes
// together. The first try of every part on a node costs nothing, so that a call with many nodes does
// not run out of steps where the parts fit easily.
class SearchBudget {
 public:
  static constexpr unsigned kSteps = 20'000;        // a few milliseconds
  static constexpr unsigned kStepsPerNode = 2'000;  // so that one node does not use them all

  explicit SearchBudget(unsigned steps = kSteps) : left_(steps) {}

  // Begins the search on the next node.
  void begin() { ended_ = false; }
  // Uses one step. Returns false if none is left.
  bool take() {
    if (left_ == 0) {
      end();
      return false;
    }
    --left_;
    return true;
  }
  // Ends the search on this node without a result.
  void end() { ended_ = ever_ended_ = true; }

  // Return whether the search ended early, so that it may have missed a choice: ended() on the
  // current node, ever_ended() on any node so far.
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] bool ever_ended() const { return ever_ended_; }
  [[nodiscard]] unsigned left() const { return left_; }

 private:
  unsigned left_;
  bool ended_ = false;
  bool ever_ended_ = false;
};

}  // namespace tessera::alloc
