// A directory tree of a host with NVIDIA's driver, for tests.
#pragma once

#include <elf.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "../../base/temporary_directory.h"
#include "agent/gpu/driver_files.h"
#include "base/file.h"

namespace tessera::agent {

#if defined(__aarch64__)
inline constexpr std::uint16_t kMachine = EM_AARCH64;
inline const std::string kMultiarch = "/usr/lib/aarch64-linux-gnu";
#else
inline constexpr std::uint16_t kMachine = EM_X86_64;
inline const std::string kMultiarch = "/usr/lib/x86_64-linux-gnu";
#endif

// The tree is below a temporary directory, as the agent sees a host through a mount.
class DriverHost {
 public:
  DriverHost() {
    library(kMultiarch + "/libcuda.so.550.54.15");
    link(kMultiarch + "/libcuda.so.1", "libcuda.so.550.54.15");
    library(kMultiarch + "/libnvidia-ml.so.550.54.15");
    link(kMultiarch + "/libnvidia-ml.so.1", kMultiarch + "/libnvidia-ml.so.550.54.15");
    file("/usr/bin/nvidia-smi", "program");
    for (const char* node : {"nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"}) {
      file(std::string("/dev/") + node, "");
    }
  }

  void file(const std::string& path, const std::string& bytes) const {
    std::filesystem::create_directories(std::filesystem::path(local(path)).parent_path());
    EXPECT_TRUE(write_file(local(path), bytes));
  }
  void library(const std::string& path, unsigned char elf_class = ELFCLASS64) const {
    std::string head(64, '\0');
    head.replace(0, SELFMAG, ELFMAG);
    head[EI_CLASS] = static_cast<char>(elf_class);
    head[EI_NIDENT + 2] = static_cast<char>(kMachine & 0xffU);
    head[EI_NIDENT + 3] = static_cast<char>(kMachine >> 8U);
    file(path, head);
  }
  void link(const std::string& path, const std::string& target) const {
    std::filesystem::create_directories(std::filesystem::path(local(path)).parent_path());
    std::filesystem::create_symlink(target, local(path));
  }
  void remove(const std::string& path) const { std::filesystem::remove(local(path)); }

  [[nodiscard]] std::string local(const std::string& path) const { return directory_.path() + path; }
  [[nodiscard]] HostRoot root() const { return {.host = "/run/nvidia/driver", .here = directory_.path()}; }
  [[nodiscard]] DriverFilesOptions options() const {
    return {.driver = root(), .dev = {.host = "/dev", .here = local("/dev")}};
  }

 private:
  TemporaryDirectory directory_;
};

}  // namespace tessera::agent
