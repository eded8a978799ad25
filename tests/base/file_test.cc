#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/fd.h"
#include "temporary_directory.h"

namespace tessera {
namespace {

TEST(Fd, ClosesItsDescriptorWhenDestroyed) {
  int raw = -1;
  {
    const Fd file = Fd::open("/dev/null", O_RDONLY).value();
    raw = file.get();
    EXPECT_NE(::fcntl(raw, F_GETFD), -1);
    EXPECT_NE(::fcntl(raw, F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(::fcntl(raw, F_GETFD), -1);
}

TEST(Fd, MoveAssignmentClosesTheOldDescriptor) {
  Fd first = Fd::open("/dev/null", O_RDONLY).value();
  Fd second = Fd::open("/dev/null", O_RDONLY).value();
  const int kept = first.get();
  const int closed = second.get();
  second = std::move(first);
  EXPECT_EQ(second.get(), kept);
  EXPECT_EQ(::fcntl(closed, F_GETFD), -1);
  const int released = second.release();
  EXPECT_FALSE(second.valid());
  ::close(released);
}

TEST(Fd, OpenErrorNamesTheFile) {
  const auto missing = Fd::open("/does/not/exist", O_RDONLY);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().text(), "open /does/not/exist: No such file or directory");
}

TEST(Pipe, CarriesBytes) {
  const Pipe pipe = Pipe::create().value();
  ASSERT_EQ(::write(pipe.write_end.get(), "x", 1), 1);
  char got = 0;
  ASSERT_EQ(::read(pipe.read_end.get(), &got, 1), 1);
  EXPECT_EQ(got, 'x');
}

TEST(File, ReadsBackWhatItWrote) {
  const TemporaryDirectory directory;
  const std::string bytes(100'000, 'x');
  ASSERT_TRUE(write_file(directory / "f", bytes, 0600));
  EXPECT_EQ(read_file(directory / "f").value(), bytes);
  struct stat info{};
  ASSERT_EQ(::stat((directory / "f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST(File, ReadsProcFilesThatReportSizeZero) {
  EXPECT_NE(read_file("/proc/self/status").value().find("Pid:"), std::string::npos);
}

TEST(File, RejectsAFileLargerThanTheLimit) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_file(directory / "f", "12345"));
  const auto read = read_file(directory / "f", 4);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().text(), directory / "f" + " is larger than 4 bytes");
  EXPECT_TRUE(read_file(directory / "f", 5));
}

TEST(File, LeavesNoTemporaryFileWhenWritingFails) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkdir((directory / "d").c_str(), 0755), 0);
  EXPECT_FALSE(write_file(directory / "d", "a file cannot replace a directory"));
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    ++entries;
  }
  EXPECT_EQ(entries, 1);
}

}  // namespace
}  // namespace tessera
