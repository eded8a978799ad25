#include "kube/child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <map>

#include "base/fd.h"

namespace tessera::kube {

namespace {

constexpr std::size_t kMaxOutput = 1U << 20U;
constexpr std::size_t kMaxStderr = 4U << 10U;

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& extra) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) {
      variables[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  for (const auto& [name, value] : extra) {
    variables[name] = value;
  }
  std::vector<std::string> lines;
  lines.reserve(variables.size());
  for (const auto& [name, value] : variables) {
    lines.push_back(fmt::format("{}={}", name, value));
  }
  return lines;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

// Owns the two argument objects of posix_spawn.
struct SpawnSetup {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};

  SpawnSetup() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }

  void prepare(int out, int err) {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    // Asio's sockets are not close-on-exec: inherited by a helper of the program, they would keep
    // our port in use.
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    // Our threads block the signals that signalfd reads, but these signals must be able to end the
    // program.
    sigset_t none;
    sigemptyset(&none);
    sigset_t reset;
    sigemptyset(&reset);
    for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
      sigaddset(&reset, signal);
    }
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &reset);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
};

// A child process. The destructor kills it if it still runs.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid), exit_fd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (!reaped_) {
      ::kill(-pid_, SIGKILL);
      wait();
    }
  }

  [[nodiscard]] int exit_fd() const { return exit_fd_.get(); }

  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
  Fd exit_fd_;
  bool reaped_ = false;
};

// Reads the available bytes. Returns false at the end of the stream.
bool read_some(const Fd& from, std::string& into) {
  std::array<char, 16384> chunk{};
  while (true) {
    const ssize_t got = ::read(from.get(), chunk.data(), chunk.size());
    if (got > 0) {
      into.append(chunk.data(), static_cast<std::size_t>(got));
      return true;
    }
    if (got < 0 && errno == EINTR) {
      continue;
    }
    return got < 0 && errno == EAGAIN;
  }
}

// Reads what the program printed just before its end. Does not block, so that a grandchild that
// keeps the pipe open cannot delay us.
void drain(const Fd& from, std::string& into) {
  std::size_t before = 0;
  do {
    before = into.size();
  } while (from.valid() && read_some(from, into) && into.size() > before && into.size() <= kMaxOutput);
}

void keep_tail(std::string& text) {
  if (text.size() > kMaxStderr) {
    text.erase(0, text.size() - kMaxStderr);
  }
}

// Collects output until the program has ended, even if a grandchild keeps the pipes open.
Result<ProgramOutput> collect(const ProgramCall& call, Child& child, Fd out, Fd err) {
  const auto deadline = std::chrono::steady_clock::now() + call.timeout;
  ProgramOutput output;
  bool ended = false;
  while (!ended) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return fail(ErrorCode::kTimeout,
                  fmt::format("{} did not end within {} s", call.command, call.timeout.count() / 1000));
    }
    std::array<pollfd, 3> waiting{pollfd{out.get(), POLLIN, 0}, pollfd{err.get(), POLLIN, 0},
                                  pollfd{child.exit_fd(), POLLIN, 0}};
    if (::poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) {
      return fail(Error::from_errno("poll " + call.command, errno));
    }
    ended = waiting[2].revents != 0;
    if (waiting[0].revents != 0 && !read_some(out, output.out)) {
      out.reset();
    }
    if (waiting[1].revents != 0 && !read_some(err, output.err)) {
      err.reset();
    }
    keep_tail(output.err);
    if (output.out.size() > kMaxOutput) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("{} printed more than {} bytes", call.command, kMaxOutput));
    }
  }
  drain(out, output.out);
  drain(err, output.err);
  keep_tail(output.err);
  output.exit_code = child.wait();
  return output;
}

}  // namespace

Result<ProgramOutput> run_program(const ProgramCall& call) {
  Pipe out = TRY(Pipe::create());
  Pipe err = TRY(Pipe::create());
  for (const Fd* end : {&out.read_end, &err.read_end}) {
    if (::fcntl(end->get(), F_SETFL, O_NONBLOCK) != 0) {
      return fail(Error::from_errno("fcntl", errno));
    }
  }
  std::vector<std::string> arguments{call.command};
  arguments.insert(arguments.end(), call.args.begin(), call.args.end());
  std::vector<std::string> environment = environment_with(call.env);
  SpawnSetup setup;
  setup.prepare(out.write_end.get(), err.write_end.get());
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, call.command.c_str(), &setup.actions, &setup.attributes,
                                 pointers(arguments).data(), pointers(environment).data());
  if (error != 0) {
    return fail(Error::from_errno("run " + call.command, error));
  }
  Child child(pid);
  out.write_end.reset();
  err.write_end.reset();
  if (child.exit_fd() < 0) {
    return fail(Error::from_errno("pidfd_open for " + call.command, errno));
  }
  return collect(call, child, std::move(out.read_end), std::move(err.read_end));
}

}  // namespace tessera::kube
