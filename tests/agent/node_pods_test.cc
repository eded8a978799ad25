// The book of this node's pods.
#include "agent/node_pods.h"

#include <gtest/gtest.h>

#include "node_model.h"

namespace tessera::agent {
namespace {

class NodePodsTest : public testing::Test {
 protected:
  bool has(const Pod& pod) const { return pods.find(pod.spec.uid) != nullptr; }

  alloc::ResourceNames names;
  NodePods pods{names, {}};
};

// We fetch, the watch tells the end of a pod, and then our answer is read: it is of before.
TEST_F(NodePodsTest, DoesNotBringAPodBackThatTheWatchSaidHasEnded) {
  Pod failed = share("failed", 3, 1);
  const Pod deleted = share("deleted", 3, 1);
  pods.put(failed.spec, 101, true);
  pods.put(deleted.spec, 102, true);
  pods.synced();
  const alloc::PodSpec pending = failed.spec;
  failed.spec.phase = alloc::PodPhase::kFailed;
  pods.put(failed.spec, 104, true);
  pods.put(pending, 103, false);
  EXPECT_FALSE(has(failed));
  kube::ObjectMeta meta;
  meta.uid = deleted.spec.uid;
  meta.version = 106;
  pods.forget(meta);
  pods.put(deleted.spec, 105, false);
  EXPECT_FALSE(has(deleted));
}

TEST_F(NodePodsTest, TakesAFetchedPodThatTheWatchHasNotToldYet) {
  const Pod before = share("before", 3, 1);
  const Pod late = share("late", 3, 1);
  pods.put(before.spec, 101, true);
  pods.put(late.spec, 100, false);
  EXPECT_TRUE(has(late)) << "a list is in no order";
  pods.synced();
  EXPECT_FALSE(has(late));
  pods.put(late.spec, 100, false);
  EXPECT_TRUE(has(late));
}

}  // namespace
}  // namespace tessera::agent
