// sim/random.h
//
// Random numbers that are the same on every machine, so that experiments can be repeated. The
// generators of the standard library are portable, but its distributions and std::shuffle are not.
//
//   Random random(42);
//   random.below(6)          // 0 .. 5, all equally likely
//   random.shuffle(pods);
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace tessera::sim {

// xoshiro256** (Blackman and Vigna), its state filled by splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15U;
      std::uint64_t mixed = (seed ^ seed >> 30U) * 0xbf58476d1ce4e5b9U;
      mixed = (mixed ^ mixed >> 27U) * 0x94d049bb133111ebU;
      word = mixed ^ mixed >> 31U;
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Returns a number below `bound`, which must not be 0. Rejects values that would favour small
  // numbers.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t rejected = (0 - bound) % bound;
    for (;;) {
      const auto wide = static_cast<unsigned __int128>(next()) * bound;
      if (static_cast<std::uint64_t>(wide) >= rejected) {
        return static_cast<std::uint64_t>(wide >> 64U);
      }
    }
  }

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[below(i)]);
    }
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace tessera::sim
