#include "program.h"

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "base/fd.h"

namespace tessera::cli {

namespace {

// Runs in the child, right after fork.
[[noreturn]] void become(const std::string& path, const std::vector<std::string>& words,
                         const Environment& environment) {
  ::unsetenv("COLUMNS");  // of the terminal in which the tests run
  for (const auto& [name, value] : environment) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::vector<char*> arguments{const_cast<char*>(path.c_str())};
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  ::execv(path.c_str(), arguments.data());
  ::_exit(127);
}

int exit_code(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Reads both pipes to their ends.
void drain(int out, int err, Outcome& outcome) {
  std::array<pollfd, 2> open{pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  while (open[0].fd >= 0 || open[1].fd >= 0) {
    ::poll(open.data(), open.size(), -1);
    for (pollfd& one : open) {
      if (one.revents == 0) {
        continue;
      }
      std::array<char, 4096> bytes{};
      const ssize_t got = ::read(one.fd, bytes.data(), bytes.size());
      if (got <= 0) {
        one.fd = -1;
      } else {
        (one.fd == out ? outcome.out : outcome.err).append(bytes.data(), static_cast<std::size_t>(got));
      }
    }
  }
}

}  // namespace

std::string program_path(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

Outcome run_in_pipe(const std::string& name, const std::vector<std::string>& words,
                    const Environment& environment) {
  Pipe out = *Pipe::create();
  Pipe err = *Pipe::create();
  const std::string path = program_path(name);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out.write_end.get(), STDOUT_FILENO);
    ::dup2(err.write_end.get(), STDERR_FILENO);
    become(path, words, environment);
  }
  out.write_end.reset();
  err.write_end.reset();
  Outcome outcome;
  drain(out.read_end.get(), err.read_end.get(), outcome);
  outcome.code = exit_code(child);
  return outcome;
}

Outcome run_into(int out, const std::string& name, const std::vector<std::string>& words) {
  Pipe err = *Pipe::create();
  const std::string path = program_path(name);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err.write_end.get(), STDERR_FILENO);
    become(path, words, {});
  }
  err.write_end.reset();
  Outcome outcome;
  drain(-1, err.read_end.get(), outcome);
  outcome.code = exit_code(child);
  return outcome;
}

int run_and_close_pipe(const std::string& name, const std::vector<std::string>& words,
                       const std::string& text) {
  Pipe out = *Pipe::create();
  const std::string path = program_path(name);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out.write_end.get(), STDOUT_FILENO);
    become(path, words, {});
  }
  out.write_end.reset();
  std::string seen;
  std::array<char, 4096> bytes{};
  for (ssize_t got = 1; got > 0 && seen.find(text) == std::string::npos;) {
    got = ::read(out.read_end.get(), bytes.data(), bytes.size());
    seen.append(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  out.read_end.reset();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Outcome run_on_terminal(const std::string& name, const std::vector<std::string>& words,
                        const Environment& environment) {
  TerminalProgram program(name, words, environment);
  Outcome outcome;
  outcome.code = program.finish();
  outcome.out = program.output();
  return outcome;
}

TerminalProgram::TerminalProgram(const std::string& name, const std::vector<std::string>& words,
                                 const Environment& environment) {
  termios raw{};
  ::cfmakeraw(&raw);
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 120;
  const std::string path = program_path(name);
  child_ = ::forkpty(&terminal_, nullptr, &raw, &size);
  if (child_ < 0) {
    throw std::runtime_error("forkpty failed");
  }
  if (child_ == 0) {
    become(path, words, environment);
  }
}

TerminalProgram::~TerminalProgram() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    exit_code(child_);
  }
  ::close(terminal_);
}

// After the program has ended, read() on the terminal returns an error instead of end of file.
bool TerminalProgram::read_some(std::chrono::milliseconds at_most) {
  pollfd one{terminal_, POLLIN, 0};
  if (::poll(&one, 1, static_cast<int>(at_most.count())) <= 0) {
    return true;
  }
  std::array<char, 4096> bytes{};
  const ssize_t got = ::read(terminal_, bytes.data(), bytes.size());
  if (got > 0) {
    output_.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return got > 0;
}

bool TerminalProgram::read_until(const std::string& text) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (true) {
    const std::size_t found = output_.find(text, seen_);
    if (found != std::string::npos) {
      seen_ = found + text.size();
      return true;
    }
    if (std::chrono::steady_clock::now() > end || !read_some(std::chrono::milliseconds(100))) {
      return false;
    }
  }
}

void TerminalProgram::signal(int number) const {
  ::kill(child_, number);
}

void TerminalProgram::resize(unsigned short rows, unsigned short columns) const {
  winsize size{};
  size.ws_row = rows;
  size.ws_col = columns;
  ::ioctl(terminal_, TIOCSWINSZ, &size);
}

int TerminalProgram::finish() {
  while (read_some(std::chrono::milliseconds(60'000))) {
  }
  const pid_t child = child_;
  child_ = -1;
  return exit_code(child);
}

}  // namespace tessera::cli
