// tests/kube/cutting_relay.h
//
// A TCP relay between a client and a server that fails like a network: connections break at any
// byte, or hang silently. It does not interpret the bytes, so TLS passes through.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <random>
#include <thread>

#include "base/fd.h"

namespace tessera::kube {

class CuttingRelay {
 public:
  // Relays to 127.0.0.1:`server_port`.
  explicit CuttingRelay(std::uint16_t server_port);
  CuttingRelay(const CuttingRelay&) = delete;
  CuttingRelay& operator=(const CuttingRelay&) = delete;
  ~CuttingRelay();

  [[nodiscard]] std::uint16_t port() const { return port_; }

  // Until heal(), each connection breaks after a random number of bytes, on average `bytes`. One in
  // four hangs instead of breaking. Any thread.
  void break_after(std::uint64_t bytes) { average_bytes_ = bytes; }
  void heal() { average_bytes_ = 0; }
  [[nodiscard]] std::uint64_t broken() const { return broken_; }
  [[nodiscard]] std::uint64_t hung() const { return hung_; }

 private:
  struct Pair {
    Fd client;
    Fd server;
    std::uint64_t left = 0;  // bytes until it breaks; 0 if it does not
    bool hangs = false;
  };

  void run();
  void accept_one();
  // Forwards available bytes. Returns false if the pair has ended.
  bool pass(Pair& pair, const Fd& from, const Fd& to);
  void plan(Pair& pair);

  std::uint16_t server_port_;
  std::uint16_t port_ = 0;
  Fd listener_;
  Fd stop_read_;
  Fd stop_write_;
  std::list<Pair> pairs_;
  std::mt19937_64 random_{17};
  std::atomic<std::uint64_t> average_bytes_ = 0;
  std::atomic<std::uint64_t> broken_ = 0;
  std::atomic<std::uint64_t> hung_ = 0;
  std::thread thread_;
};

}  // namespace tessera::kube
