#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>

#include "../../base/temporary_directory.h"
#include "agent/devices/cdi_spec.h"
#include "agent/devices/cdi_strategy.h"
#include "agent/devices/delivery_strategy.h"
#include "agent/gpu/driver_files.h"
#include "agent/gpu/gpu_devices.h"
#include "base/file.h"
#include "driver_host.h"
#include "gpu_node.h"

namespace tessera::agent {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Returns a container with these GPUs.
ContainerEdits container_with(const DriverHost& host, const std::vector<alloc::Gpu>& gpus) {
  DriverFilesCache files(host.options());
  return {.pod_uid = "5b0c-1", .container = "main", .edits = gpu_edits(files, gpus)};
}
ContainerEdits container_with(const DriverHost& host, unsigned gpus) {
  return container_with(host, v100s(gpus).gpus);
}

std::map<std::string, std::string> by_container_path(const std::vector<MountPoint>& mounts) {
  std::map<std::string, std::string> all;
  for (const MountPoint& mount : mounts) {
    EXPECT_TRUE(mount.read_only);
    all[mount.container_path] = mount.host_path;
  }
  return all;
}

TEST(HostRoot, FollowsLinksAsIfItWereTheRoot) {
  const DriverHost host;
  host.link("/etc/alternatives/cuda", kMultiarch + "/libcuda.so.1");
  host.link("/opt/cuda", "../etc/alternatives/cuda");
  EXPECT_EQ(host.root().real_path("/opt/cuda"), kMultiarch + "/libcuda.so.550.54.15");
}

TEST(HostRoot, NoLinkLeadsOutOfTheRoot) {
  const DriverHost host;
  host.link("/opt/up", "../../../../../../../../usr/bin/nvidia-smi");
  host.link("/opt/round", "/opt/round");
  host.link("/opt/nowhere", "/etc/hostname-that-is-not-there");
  EXPECT_EQ(host.root().real_path("/opt/up"), "/usr/bin/nvidia-smi");
  EXPECT_EQ(host.root().real_path("/opt/round"), std::nullopt);
  EXPECT_EQ(host.root().real_path("/opt/nowhere"), std::nullopt);
  EXPECT_EQ(HostRoot{}.on_host("/usr"), "/usr");
}

TEST(DriverFiles, AreMountedUnderEveryNameWhereLinkersLook) {
  const DriverHost host;
  const auto files = find_driver_files(host.options());
  ASSERT_TRUE(files) << files.error().text();
  const std::string cuda = "/run/nvidia/driver" + kMultiarch + "/libcuda.so.550.54.15";
  const std::string ml = "/run/nvidia/driver" + kMultiarch + "/libnvidia-ml.so.550.54.15";
  EXPECT_THAT(
      by_container_path(files->mounts),
      UnorderedElementsAre(
          Pair(kMultiarch + "/libcuda.so.1", cuda), Pair(kMultiarch + "/libcuda.so.550.54.15", cuda),
          Pair(kMultiarch + "/libnvidia-ml.so.1", ml), Pair(kMultiarch + "/libnvidia-ml.so.550.54.15", ml),
          Pair("/usr/lib64/libcuda.so.1", cuda), Pair("/usr/lib64/libcuda.so.550.54.15", cuda),
          Pair("/usr/lib64/libnvidia-ml.so.1", ml), Pair("/usr/lib64/libnvidia-ml.so.550.54.15", ml),
          Pair("/usr/bin/nvidia-smi", "/run/nvidia/driver/usr/bin/nvidia-smi")));
  EXPECT_TRUE(files->has_cuda);
  EXPECT_EQ(files->library_path, "");
}

TEST(DriverFiles, AreMountedInTheirOwnDirectoryWithLibraryPath) {
  const DriverHost host;
  DriverFilesOptions options = host.options();
  options.place = parse_library_place("env").value();
  const auto files = find_driver_files(options);
  ASSERT_TRUE(files);
  EXPECT_EQ(files->library_path, "/usr/local/nvidia/lib64");
  EXPECT_THAT(by_container_path(files->mounts),
              Contains(Pair("/usr/local/nvidia/lib64/libcuda.so.1", testing::_)));
  EXPECT_FALSE(parse_library_place("both"));
}

TEST(DriverFiles, OmitOtherArchitecturesGraphicsAndOtherFiles) {
  const DriverHost host;
  host.library("/usr/lib/libnvidia-opencl.so.1", ELFCLASS32);
  host.library(kMultiarch + "/libGLX_nvidia.so.0");
  host.file(kMultiarch + "/libnvidia-encode.so", "INPUT(libnvidia-encode.so.1)");
  host.file(kMultiarch + "/libcuda.sofa", "");
  const auto files = find_driver_files(host.options());
  ASSERT_TRUE(files);
  EXPECT_EQ(files->mounts.size(), 9U);
}

// Debian links libraries and programs through /etc/alternatives. By default, the chart mounts only
// /usr into the agent.
TEST(DriverFiles, AreFoundOnDebianWithoutEtc) {
  const DriverHost host;
  for (const std::string& path : {kMultiarch + "/libcuda.so.1", kMultiarch + "/libcuda.so.550.54.15",
                                  std::string("/usr/bin/nvidia-smi")}) {
    host.remove(path);
  }
  host.link(kMultiarch + "/libcuda.so.1", "/etc/alternatives/glx--libcuda.so.1-x86_64-linux-gnu");
  host.link("/usr/bin/nvidia-smi", "/etc/alternatives/nvidia--nvidia-smi");
  const std::string cuda = kMultiarch + "/nvidia/current/libcuda.so.550.54.15";
  host.library(cuda);
  host.link(kMultiarch + "/nvidia/current/libcuda.so.1", "libcuda.so.550.54.15");
  host.file("/usr/lib/nvidia/current/nvidia-smi", "program");
  const auto files = find_driver_files(host.options());
  ASSERT_TRUE(files) << files.error().text();
  const auto mounts = by_container_path(files->mounts);
  EXPECT_THAT(mounts, Contains(Pair(kMultiarch + "/libcuda.so.1", "/run/nvidia/driver" + cuda)));
  EXPECT_THAT(mounts,
              Contains(Pair("/usr/bin/nvidia-smi", "/run/nvidia/driver/usr/lib/nvidia/current/nvidia-smi")));
}

TEST(DriverFiles, ReportWhereTheyWereSearchedWhenThereAreNone) {
  const TemporaryDirectory empty;
  const auto files = find_driver_files({.driver = {.host = "/run/nvidia/driver", .here = empty.path()}});
  ASSERT_FALSE(files);
  EXPECT_THAT(files.error().text(), AllOf(HasSubstr("/run/nvidia/driver"), HasSubstr("--driver-root")));
}

TEST(DriverFiles, ASingleLibraryIsFoundThroughItsLinks) {
  const DriverHost host;
  EXPECT_EQ(find_driver_library(host.root(), "libnvidia-ml.so.1"),
            host.local(kMultiarch + "/libnvidia-ml.so.550.54.15"));
  EXPECT_EQ(find_driver_library(host.root(), "libnvidia-nscq.so.1"), std::nullopt);
}

TEST(DriverFiles, AreSearchedAgainAfterADriverUpdate) {
  const DriverHost host;
  DriverFilesCache cache(host.options());
  ASSERT_TRUE(cache.get());
  host.remove(kMultiarch + "/libcuda.so.550.54.15");
  host.remove(kMultiarch + "/libcuda.so.1");
  host.library(kMultiarch + "/libcuda.so.560.1");
  host.link(kMultiarch + "/libcuda.so.1", "libcuda.so.560.1");
  const auto files = cache.get();
  ASSERT_TRUE(files);
  EXPECT_THAT(by_container_path((*files)->mounts),
              Contains(Pair("/usr/lib64/libcuda.so.1", HasSubstr("libcuda.so.560.1"))));
}

// A search during the installation of a driver finds only some of its files.
TEST(DriverFiles, AreSearchedAgainWhileThereIsNoLibcuda) {
  const DriverHost host;
  host.remove(kMultiarch + "/libcuda.so.550.54.15");
  host.remove(kMultiarch + "/libcuda.so.1");
  DriverFilesCache cache(host.options());
  ASSERT_TRUE(cache.get());
  const std::optional<std::string> warning = cache.take_warning();
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, testing::HasSubstr("install the driver's compute libraries"));
  EXPECT_FALSE((*cache.get())->has_cuda);
  EXPECT_FALSE(cache.take_warning()) << "the warning is reported once, not for each container";
  host.library(kMultiarch + "/libcuda.so.1");
  const auto files = cache.get();
  ASSERT_TRUE(files);
  EXPECT_THAT(by_container_path((*files)->mounts), Contains(Pair("/usr/lib64/libcuda.so.1", testing::_)));
}

TEST(DeviceNodes, AreTheSharedNodesThatExistAndThoseOfTheGpus) {
  const DriverHost host;
  std::vector<alloc::Gpu> gpus = v100s(2).gpus;
  gpus.erase(gpus.begin());
  const auto nodes = device_nodes(host.options().dev, gpus);
  ASSERT_TRUE(nodes);
  std::vector<std::string> paths;
  for (const DeviceNode& node : *nodes) {
    EXPECT_EQ(node.container_path, node.host_path);
    EXPECT_EQ(node.permissions, "rw");
    paths.push_back(node.host_path);
  }
  EXPECT_THAT(paths, ElementsAre("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia1"));
}

TEST(DeviceNodes, FollowTheMinorNumberAndNotTheIndex) {
  const DriverHost host;
  std::vector<alloc::Gpu> gpus = v100s(1).gpus;
  gpus[0].minor = 1;
  EXPECT_EQ(device_nodes(host.options().dev, gpus)->back().host_path, "/dev/nvidia1");
}

TEST(DeviceNodes, AreNamedInTheErrorWhenTheyAreMissingOrUnknown) {
  const DriverHost host;
  std::vector<alloc::Gpu> gpus = v100s(1).gpus;
  gpus[0].minor = 5;
  EXPECT_THAT(device_nodes(host.options().dev, gpus).error().text(),
              AllOf(HasSubstr("GPU-0"), HasSubstr("/dev/nvidia5 does not exist")));
  gpus[0].minor = -1;
  EXPECT_THAT(device_nodes(host.options().dev, gpus).error().text(), HasSubstr("minor number"));
}

TEST(DeviceStrategy, DeliversNodesAndLibrariesAndNoOtherGpu) {
  const DriverHost host;
  DeviceStrategy strategy("GPUs");
  ContainerResponse response;
  response.env["NVIDIA_VISIBLE_DEVICES"] = "GPU-0";
  ASSERT_TRUE(strategy.add(container_with(host, 1), response));
  ASSERT_EQ(response.nodes.size(), 3U);
  EXPECT_EQ(response.nodes.back().host_path, "/dev/nvidia0");
  EXPECT_EQ(response.mounts.size(), 9U);
  EXPECT_EQ(response.env.size(), 1U);
  EXPECT_TRUE(strategy.before_start(container_with(host, 1)));
  EXPECT_FALSE(strategy.can_update());
}

TEST(DeviceStrategy, DeliversNothingToAContainerWithoutGpus) {
  const DriverHost host;
  DeviceStrategy strategy("GPUs");
  ContainerResponse response;
  ASSERT_TRUE(strategy.add(container_with(host, 0), response));
  EXPECT_THAT(response.nodes, IsEmpty());
  EXPECT_THAT(response.mounts, IsEmpty());
}

// Returns the response in kubelet's checkpoint for a container with one GPU.
std::string fixed_at_admission(const DriverHost& host, DeviceStrategy& strategy) {
  ContainerResponse response;
  const ContainerEdits container = container_with(host, 1);
  EXPECT_TRUE(strategy.add(container, response));
  return strategy.fixed(*container.edits);
}

TEST(DeviceStrategy, BlocksAContainerWhoseDeviceNodeBelongsToAnotherGpuNow) {
  const DriverHost host;
  DeviceStrategy strategy("GPUs");
  std::vector<alloc::Gpu> gpus = v100s(1).gpus;
  ContainerEdits container = container_with(host, gpus);
  container.fixed = fixed_at_admission(host, strategy);
  EXPECT_TRUE(strategy.before_start(container));
  gpus[0].minor = 1;
  container.edits = container_with(host, gpus).edits;
  const Status blocked = strategy.before_start(container);
  ASSERT_FALSE(blocked);
  EXPECT_THAT(blocked.error().text(),
              AllOf(HasSubstr("/dev/nvidia0"), HasSubstr("/dev/nvidia1"), HasSubstr("delete the pod")));
}

TEST(DeviceStrategy, BlocksAContainerWhoseDriverFilesWereUpdated) {
  const DriverHost host;
  DeviceStrategy strategy("GPUs");
  const std::string fixed = fixed_at_admission(host, strategy);
  host.library(kMultiarch + "/libnvidia-cfg.so.550.54.15");
  ContainerEdits container = container_with(host, 1);
  container.fixed = fixed;
  EXPECT_TRUE(strategy.before_start(container)) << "an additional file does not matter";
  host.remove(kMultiarch + "/libcuda.so.550.54.15");
  host.remove(kMultiarch + "/libcuda.so.1");
  host.library(kMultiarch + "/libcuda.so.560.1");
  host.link(kMultiarch + "/libcuda.so.1", "libcuda.so.560.1");
  container.edits = container_with(host, 1).edits;
  const Status blocked = strategy.before_start(container);
  ASSERT_FALSE(blocked);
  EXPECT_THAT(blocked.error().text(), HasSubstr("libcuda.so.560.1"));
}

TEST(DeviceStrategy, BlocksAContainerWhoseDriverIsGone) {
  const DriverHost host;
  DeviceStrategy strategy("GPUs");
  ContainerResponse response;
  ASSERT_TRUE(strategy.add(container_with(host, 1), response));
  host.remove("/dev/nvidia0");
  EXPECT_FALSE(strategy.before_start(container_with(host, 1)));
  const std::size_t before = response.nodes.size();
  EXPECT_FALSE(strategy.add(container_with(host, 1), response));
  EXPECT_EQ(response.nodes.size(), before);
}

TEST(CdiSpec, IsADocumentOfVersion06WithOneDevice) {
  Edits edits;
  edits.env = {{"A", "1"}, {"B", "x=y"}};
  edits.nodes = {{.container_path = "/dev/nvidia0", .host_path = "/host/dev/nvidia0"}};
  edits.mounts = {{.container_path = "/usr/lib64/libcuda.so.1", .host_path = "/drv/libcuda.so.550"}};
  const std::string device = cdi_device_name("5b0c-1", "main").value();
  const boost::json::value expected = boost::json::parse(R"({
    "cdiVersion": "0.6.0", "kind": "tessera.io/gpu",
    "devices": [{"name": "5b0c-1_main", "containerEdits": {
      "env": ["A=1", "B=x=y"],
      "deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/host/dev/nvidia0", "permissions": "rw"}],
      "mounts": [{"hostPath": "/drv/libcuda.so.550", "containerPath": "/usr/lib64/libcuda.so.1",
                  "options": ["ro", "nosuid", "nodev", "bind"]}]}}]})");
  EXPECT_EQ(boost::json::parse(gpu_cdi_kind().spec(device, edits)), expected);
  EXPECT_EQ(gpu_cdi_kind().qualified_name(device), "tessera.io/gpu=5b0c-1_main");
}

TEST(CdiSpec, RejectsNamesThatCouldLeaveItsDirectory) {
  EXPECT_FALSE(cdi_device_name("../../etc/x", "main"));
  EXPECT_FALSE(cdi_device_name("5b0c-1", "a/b"));
  EXPECT_FALSE(cdi_device_name("5b0c_1", "main"));
  EXPECT_FALSE(cdi_device_name("", "main"));
}

TEST(CdiSpec, RecognizesItsOwnFilesOnly) {
  const CdiKind gpus = gpu_cdi_kind();
  EXPECT_EQ(gpus.file_name("5b0c-1_main"), "tessera-5b0c-1_main.json");
  EXPECT_EQ(gpus.device_of_file("tessera-5b0c-1_main.json"), "5b0c-1_main");
  EXPECT_EQ(pod_of_cdi_device("5b0c-1_main"), "5b0c-1");
  EXPECT_EQ(gpus.device_of_file("nvidia.yaml"), std::nullopt);
  EXPECT_EQ(gpus.device_of_file("tessera-notes.json"), std::nullopt);
  EXPECT_EQ(gpus.device_of_file("tessera-_.json"), std::nullopt);
}

TEST(CdiSpec, NoKindMistakesTheFilesOfAnother) {
  const std::vector<CdiKind> kinds{gpu_cdi_kind(), CdiKind::of("thing"), CdiKind::of("thing2")};
  for (const CdiKind& one : kinds) {
    for (const CdiKind& other : kinds) {
      EXPECT_EQ(one.device_of_file(other.file_name("5b0c-1_main")).has_value(), one.name() == other.name())
          << one.name() << " " << other.name();
    }
  }
  EXPECT_EQ(CdiKind::of("thing").qualified_name("5b0c-1_main"), "tessera.io/thing=5b0c-1_main");
}

class CdiStrategyTest : public ::testing::Test {
 protected:
  boost::json::object edits(const std::string& file = "tessera-5b0c-1_main.json") {
    const auto text = read_file(fs::path(directory()) / file);
    EXPECT_TRUE(text) << text.error().text();
    return boost::json::parse(text.value_or("{}")).at("devices").at(0).at("containerEdits").as_object();
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory())) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
  std::string directory() const { return directory_.path() + "/run/cdi"; }

  ContainerEdits container_with(unsigned gpus) const {
    ContainerEdits container = agent::container_with(host_, gpus);
    container.env = {{"NVIDIA_VISIBLE_DEVICES", "void"}, {"ALIYUN_COM_GPU_MEM_CONTAINER", "3"}};
    return container;
  }
  ContainerResponse added(const ContainerEdits& container) {
    ContainerResponse response;
    response.env = container.env;
    const Status status = strategy_.add(container, response);
    EXPECT_TRUE(status) << status.error().text();
    return response;
  }

  DriverHost host_;
  TemporaryDirectory directory_;
  CdiStrategy strategy_{directory_.path() + "/run/cdi", gpu_cdi_kind()};
};

TEST_F(CdiStrategyTest, AssignsOneNameAndWritesItsFile) {
  const ContainerResponse response = added(container_with(2));
  EXPECT_THAT(response.cdi_devices, ElementsAre("tessera.io/gpu=5b0c-1_main"));
  EXPECT_THAT(response.nodes, IsEmpty());
  EXPECT_THAT(response.mounts, IsEmpty());
  EXPECT_EQ(edits().at("deviceNodes").as_array().size(), 4U);
  const boost::json::array env{"ALIYUN_COM_GPU_MEM_CONTAINER=3", "NVIDIA_VISIBLE_DEVICES=GPU-0,GPU-1"};
  EXPECT_EQ(edits().at("env").as_array(), env);
}

TEST_F(CdiStrategyTest, AnswersTheSameForEachResourceOfAContainer) {
  ContainerResponse response = added(container_with(1));
  ASSERT_TRUE(strategy_.add(container_with(1), response));
  EXPECT_EQ(response.cdi_devices.size(), 1U);
}

TEST_F(CdiStrategyTest, AssignsANameWithoutGpusToAContainerWithoutGpus) {
  EXPECT_EQ(added(container_with(0)).cdi_devices.size(), 1U);
  EXPECT_FALSE(edits().contains("deviceNodes"));
  EXPECT_EQ(edits().at("env").as_array().back(), "NVIDIA_VISIBLE_DEVICES=void");
}

TEST_F(CdiStrategyTest, UpdatesTheFileBeforeTheStartIfTheGpuWasUnknownAtAdmission) {
  added(container_with(0));
  ContainerEdits decided = container_with(2);
  decided.env = {{"ALIYUN_COM_GPU_MEM_CONTAINER", "5"}};
  ASSERT_TRUE(strategy_.before_start(decided));
  EXPECT_EQ(edits().at("deviceNodes").as_array().size(), 4U);
  const boost::json::array env{"ALIYUN_COM_GPU_MEM_CONTAINER=5", "NVIDIA_VISIBLE_DEVICES=GPU-0,GPU-1"};
  EXPECT_EQ(edits().at("env").as_array(), env);
  EXPECT_TRUE(strategy_.can_update());
}

TEST_F(CdiStrategyTest, WritesTheFileAgainAfterAReboot) {
  added(container_with(1));
  fs::remove_all(directory());
  ASSERT_TRUE(strategy_.before_start(container_with(1)));
  EXPECT_EQ(edits().at("env").as_array().back(), "NVIDIA_VISIBLE_DEVICES=GPU-0");
}

TEST_F(CdiStrategyTest, DoesNotRewriteAFileThatIsUpToDate) {
  added(container_with(1));
  const fs::path file = fs::path(directory()) / "tessera-5b0c-1_main.json";
  const auto long_ago = fs::last_write_time(file) - std::chrono::hours(1);
  fs::last_write_time(file, long_ago);
  ASSERT_TRUE(strategy_.before_start(container_with(1)));
  EXPECT_EQ(fs::last_write_time(file), long_ago);
}

TEST_F(CdiStrategyTest, RemovesOnlyTheFilesOfPodsThatAreGone) {
  added(container_with(1));
  ContainerEdits other = container_with(1);
  other.pod_uid = "77aa-2";
  added(other);
  other.container = "sidecar";
  added(other);
  ASSERT_TRUE(write_file(directory() + "/nvidia.yaml", "theirs"));
  strategy_.remove_unneeded([](const std::string& pod, const std::string&) { return pod != "77aa-2"; });
  EXPECT_THAT(files(), ElementsAre("nvidia.yaml", "tessera-5b0c-1_main.json"));
  added(other);
  strategy_.remove_unneeded(
      [](const std::string&, const std::string& device) { return device == "77aa-2_sidecar"; });
  EXPECT_THAT(files(), ElementsAre("nvidia.yaml", "tessera-77aa-2_sidecar.json"));
}

TEST_F(CdiStrategyTest, WritesTheFilesOfAllNamesOfAContainer) {
  ContainerEdits container = container_with(1);
  container.cdi_names = {"77aa-2_main"};
  EXPECT_THAT(added(container).cdi_devices, ElementsAre("tessera.io/gpu=77aa-2_main"));
  container.cdi_names = {"77aa-2_main", "unknown_gpu-mem-ce120724-3"};
  ASSERT_TRUE(strategy_.before_start(container));
  EXPECT_THAT(files(), ElementsAre("tessera-77aa-2_main.json", "tessera-unknown_gpu-mem-ce120724-3.json"));
  container.cdi_names = {"../../etc/x_y"};
  EXPECT_FALSE(strategy_.before_start(container));
}

TEST_F(CdiStrategyTest, AssignsTheNameEvenIfTheDriverIsMissing) {
  host_.remove("/dev/nvidia0");
  ContainerResponse response;
  EXPECT_FALSE(strategy_.add(container_with(1), response));
  EXPECT_EQ(response.cdi_devices.size(), 1U);
  host_.file("/dev/nvidia0", "");
  EXPECT_TRUE(strategy_.before_start(container_with(1)));
}

}  // namespace
}  // namespace tessera::agent
