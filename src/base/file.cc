#include "base/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "base/fd.h"

namespace tessera {

namespace {

Result<std::string> read_all(int fd, const std::string& name, std::size_t max_bytes) {
  std::string bytes;
  std::array<char, 16384> chunk{};
  while (true) {
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail(Error::from_errno("read " + name, errno));
    }
    if (got == 0) {
      return bytes;
    }
    bytes.append(chunk.data(), static_cast<std::size_t>(got));
    if (bytes.size() > max_bytes) {
      return fail(ErrorCode::kInvalid, fmt::format("{} is larger than {} bytes", name, max_bytes));
    }
  }
}

Status write_all(int fd, const std::string& name, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail(Error::from_errno("write " + name, errno));
    }
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Status write_and_sync(const Fd& file, const std::string& path, std::string_view bytes, unsigned mode) {
  TRY(write_all(file.get(), path, bytes));
  if (::fchmod(file.get(), mode) != 0) {
    return fail(Error::from_errno("chmod " + path, errno));
  }
  if (::fsync(file.get()) != 0) {
    return fail(Error::from_errno("fsync " + path, errno));
  }
  return {};
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  if (path == "-") {
    return read_all(STDIN_FILENO, "standard input", max_bytes);
  }
  const Fd file = TRY(Fd::open(path, O_RDONLY));
  return read_all(file.get(), path, max_bytes);
}

Status write_file(const std::string& path, std::string_view bytes, unsigned mode) {
  // In the same directory, so that rename(2) stays on one file system.
  std::string temporary = path + ".XXXXXX";
  const Fd file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.valid()) {
    return fail(Error::from_errno("create a temporary file for " + path, errno));
  }
  Status written = write_and_sync(file, path, bytes, mode);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = fail(Error::from_errno("rename to " + path, errno));
  }
  if (!written) {
    ::unlink(temporary.c_str());
  }
  return written;
}

}  // namespace tessera
