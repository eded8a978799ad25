// Checks what the original kubectl-inspect-gpushare computes from the annotations of Tessera.
// That program cannot be run here, so OriginalInspect below repeats its computation. It does not
// know Tessera's records and inventories. Tessera's own code chooses the GPUs and writes the
// annotations, as in the extender, and the test compares the result of OriginalInspect with these
// choices.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <map>
#include <random>
#include <sstream>

#include "alloc/original_record.h"
#include "alloc/placer.h"
#include "base/strings.h"
#include "cli/cluster/cluster_files.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

namespace json = boost::json;

using Units = std::map<int, std::int64_t>;  // by GPU index; -1 is the original's "pending"

std::int64_t amount_of(const json::object& amounts, std::string_view resource) {
  const json::value* text = amounts.if_contains(resource);
  return text == nullptr ? 0 : parse_int(text->as_string()).value_or(0);
}

class OriginalInspect {
 public:
  OriginalInspect(const json::array& nodes, const json::array& pods) {
    for (const json::value& node : nodes) {
      const json::object& allocatable = node.at("status").at("allocatable").as_object();
      const std::int64_t units = amount_of(allocatable, "aliyun.com/gpu-mem");
      const std::int64_t count = amount_of(allocatable, "aliyun.com/gpu-count");
      for (int gpu = 0; gpu < count; ++gpu) {
        total_[name_of(node)][gpu] = units / count;
      }
    }
    for (const json::value& pod : pods) {
      add(pod);
    }
  }

  [[nodiscard]] const std::map<std::string, Units>& total() const { return total_; }
  [[nodiscard]] const std::map<std::string, Units>& used() const { return used_; }

 private:
  static std::string name_of(const json::value& object) {
    return std::string(object.at("metadata").at("name").as_string());
  }

  void add(const json::value& pod) {
    const std::string_view phase = pod.at("status").at("phase").as_string();
    const json::value* node = pod.at("spec").as_object().if_contains("nodeName");
    if (node == nullptr || phase == "Succeeded" || phase == "Failed") {
      return;
    }
    // The original sums up the limits of the main containers only.
    std::int64_t requested = 0;
    for (const json::value& container : pod.at("spec").at("containers").as_array()) {
      requested += amount_of(container.at("resources").at("limits").as_object(), "aliyun.com/gpu-mem");
    }
    if (requested <= 0) {
      return;
    }
    Units& used = used_[std::string(node->as_string())];
    const json::object& annotations = pod.at("metadata").at("annotations").as_object();
    if (const json::value* allocation = annotations.if_contains("scheduler.framework.gpushare.allocation")) {
      const json::value document = json::parse(allocation->as_string());
      for (const auto& container : document.as_object()) {
        for (const auto& gpu : container.value().as_object()) {
          used[std::stoi(std::string(gpu.key()))] += gpu.value().as_int64();
        }
      }
      return;
    }
    const json::value* index = annotations.if_contains("ALIYUN_COM_GPU_MEM_IDX");
    used[index == nullptr ? -1 : std::stoi(std::string(index->as_string()))] += requested;
  }

  std::map<std::string, Units> total_;
  std::map<std::string, Units> used_;
};

struct TestContainer {
  std::string name;
  std::int64_t units = 0;
  std::int64_t whole = 0;
  bool sidecar = false;
  bool init = false;
};

json::object pod_object(const std::string& name, const std::vector<TestContainer>& containers,
                        const Texts& annotations) {
  json::array main;
  json::array init;
  for (const TestContainer& container : containers) {
    json::object limits;
    if (container.units > 0) {
      limits["aliyun.com/gpu-mem"] = std::to_string(container.units);
    }
    if (container.whole > 0) {
      limits["aliyun.com/gpu"] = std::to_string(container.whole);
    }
    json::object object{{"name", container.name}, {"resources", json::object{{"limits", std::move(limits)}}}};
    if (container.sidecar) {
      object["restartPolicy"] = "Always";
    }
    (container.sidecar || container.init ? init : main).push_back(std::move(object));
  }
  json::object texts;
  for (const auto& [key, value] : annotations) {
    texts[key] = value;
  }
  return {{"metadata", json::object{{"name", name},
                                    {"namespace", "ml"},
                                    {"uid", "uid-" + name},
                                    {"resourceVersion", "3"},
                                    {"annotations", std::move(texts)}}},
          {"spec", json::object{{"containers", std::move(main)}, {"initContainers", std::move(init)}}},
          {"status", json::object{{"phase", "Pending"}}}};
}

// A cluster whose pods get GPUs and records the way the extender does it.
class DecidedCluster {
 public:
  DecidedCluster(unsigned nodes, unsigned gpus, std::uint32_t gib) {
    for (unsigned i = 0; i < nodes; ++i) {
      const std::string name = fmt::format("gpu-{}", i);
      saved_.node(name, inventory_of(name, gpus, gib * 1024));
      for (unsigned gpu = 0; gpu < gpus; ++gpu) {
        total_[name][static_cast<int>(gpu)] = gib;
      }
    }
    std::istringstream in(saved_.nodes_json());
    EXPECT_TRUE(read_list(in, store_.nodes()));
    for (const objects::NodeFacts& node : store_.snapshot().nodes) {
      ledger_.upsert_node(node.spec);
    }
  }

  // Returns whether the pod fits.
  bool place(json::object pod, const std::string& phase = "Running") {
    const alloc::PodSpec waiting = spec_of(pod);
    const auto request = alloc::Request::of_pod(waiting, ledger_.options().names);
    EXPECT_TRUE(request) << request.error().text();
    const auto choice = placer_.choose_best(*request);
    if (!choice) {
      return false;
    }
    const auto written =
        alloc::binding_annotations(request->gpus, choice->record, ledger_.gpu_names(choice->node),
                                   {.assume_time_ns = 1, .has_agent = true});
    EXPECT_TRUE(written) << written.error().text();
    for (const auto& [key, value] : *written) {
      pod["metadata"].as_object()["annotations"].as_object()[key] = value;
    }
    pod["spec"].as_object()["nodeName"] = ledger_.node_name(choice->node);
    pod["status"].as_object()["phase"] = phase;
    ledger_.upsert_pod(spec_of(pod));
    if (phase == "Running") {
      const std::vector<alloc::GpuName> gpus = ledger_.gpu_names(choice->node);
      for (const alloc::ContainerRequest& container : request->gpus.containers) {
        if (container.kind == alloc::ContainerKind::kInit) {
          continue;  // its GPUs are those of the containers that start later
        }
        for (const alloc::GpuShare& share : choice->record.find(container.name)->shares) {
          if (!share.whole) {
            used_[ledger_.node_name(choice->node)]
                 [static_cast<int>(alloc::find_gpu(gpus, share.gpu)->index)] += share.units;
          }
        }
      }
    }
    pods_.push_back(std::move(pod));
    return true;
  }

  void expect_same_view_in_the_original() const {
    const json::value nodes = json::parse(saved_.nodes_json());
    const OriginalInspect original(nodes.at("items").as_array(), pods_);
    EXPECT_EQ(original.total(), total_);
    EXPECT_EQ(original.used(), used_);
  }

 private:
  static alloc::PodSpec spec_of(const json::object& pod) {
    ClusterStore store({.want_pod = [](const alloc::PodSpec&) { return true; }});
    std::istringstream in(json::serialize(json::object{{"items", json::array{pod}}}));
    EXPECT_TRUE(read_list(in, store.pods()));
    return store.take().pods.at(0);
  }

  SavedCluster saved_;
  ClusterStore store_{{}};
  alloc::Ledger ledger_;
  alloc::Placer placer_{ledger_};
  json::array pods_;
  std::map<std::string, Units> total_;
  std::map<std::string, Units> used_;
};

TEST(OriginalInspect, SeesTheSharesOfPodsWithOneContainer) {
  DecidedCluster cluster(2, 4, 32);
  int number = 0;
  for (const int units : {3, 3, 3, 20, 31, 8}) {
    ASSERT_TRUE(cluster.place(pod_object(fmt::format("p{}", ++number), {{"main", units}}, {})));
  }
  ASSERT_TRUE(cluster.place(pod_object("over", {{"main", 12}}, {}), "Succeeded"));
  ASSERT_TRUE(cluster.place(pod_object("broken", {{"main", 12}}, {}), "Failed"));
  cluster.expect_same_view_in_the_original();
}

TEST(OriginalInspect, SeesTheSharesOfPodsWithSeveralContainersAndGpus) {
  DecidedCluster cluster(2, 4, 32);
  const Texts apart{{"tessera.io/placement", "per-container"}};
  ASSERT_TRUE(cluster.place(pod_object("together", {{"a", 4}, {"b", 6}}, {})));
  ASSERT_TRUE(cluster.place(pod_object("apart", {{"a", 20}, {"b", 20}}, apart)));
  ASSERT_TRUE(cluster.place(pod_object("split", {{"main", 24}}, {{"aliyun.com/gpu-count", "3"}})));
  ASSERT_TRUE(cluster.place(pod_object("both", {{"a", 8}, {"b", 4}}, {{"aliyun.com/gpu-count", "2"}})));
  ASSERT_TRUE(
      cluster.place(pod_object("sidecar", {{.name = "s", .units = 2, .sidecar = true}, {"main", 5}}, {})));
  ASSERT_TRUE(cluster.place(pod_object("init", {{.name = "i", .units = 2, .init = true}, {"main", 5}}, {})));
  ASSERT_TRUE(cluster.place(pod_object("bystander", {{"main", 5}, {"logs", 0}}, {})));
  cluster.expect_same_view_in_the_original();
}

// The original's format has no whole GPUs, so it shows only the shares of these pods.
TEST(OriginalInspect, SeesSharesOfPodsThatAlsoHoldWholeGpus) {
  DecidedCluster cluster(1, 4, 32);
  ASSERT_TRUE(cluster.place(pod_object("whole", {{"main", 0, 2}}, {})));
  ASSERT_TRUE(cluster.place(pod_object("share", {{"main", 5}}, {})));
  ASSERT_TRUE(cluster.place(pod_object("mixed", {{"main", 7, 1}}, {})));
  cluster.expect_same_view_in_the_original();
}

TEST(OriginalInspect, SeesAFullClusterOfAllKindsOfPods) {
  std::mt19937 random(8);
  const auto up_to = [&](unsigned most) { return static_cast<std::int64_t>(random() % most) + 1; };
  DecidedCluster cluster(4, 8, 32);
  int placed = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string name = fmt::format("p{}", i);
    std::vector<TestContainer> containers{{"main", up_to(8) * 2}};
    Texts annotations;
    if (random() % 3 == 0) {
      containers.push_back({"second", up_to(4) * 2});
    }
    if (random() % 4 == 0) {
      annotations["aliyun.com/gpu-count"] = "2";
    }
    if (random() % 4 == 0) {
      annotations["tessera.io/placement"] = "per-container";
    }
    placed += cluster.place(pod_object(name, containers, annotations),
                            random() % 10 == 0 ? "Succeeded" : "Running");
  }
  EXPECT_GT(placed, 50);
  cluster.expect_same_view_in_the_original();
}

}  // namespace
}  // namespace tessera::cli
