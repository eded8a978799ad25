// extender/block_writer.h
//
// Appends thousands of short texts to a string. Each text is copied in blocks of a fixed size, and
// the next text overwrites the surplus. This is fast, because a copy of fixed size takes two
// instructions, and a copy of variable size is a function call.
//
//   BlockWriter writer(out);
//   writer.put(name);        // kBlock bytes after it must be readable
//   ... `out` is complete after the writer is destroyed
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::extender {

class BlockWriter {
 public:
  static constexpr std::size_t kBlock = 32;

  // `out` must outlive the writer. Nothing else may change it meanwhile.
  explicit BlockWriter(std::string& out) : out_(out) {}
  BlockWriter(const BlockWriter&) = delete;
  BlockWriter& operator=(const BlockWriter&) = delete;
  ~BlockWriter() { flush(); }

  // Appends `text`. The kBlock bytes after `text` must be readable.
  [[gnu::always_inline]] void put(std::string_view text) {
    if (size_ + text.size() + kBlock > buffer_.size()) {
      flush();
      if (text.size() + kBlock > buffer_.size()) {
        out_.append(text);
        return;
      }
    }
    char* to = buffer_.data() + size_;
    for (std::size_t i = 0; i < text.size(); i += kBlock) {
      // Not std::memcpy: with _FORTIFY_SOURCE that is a function call. The bounds are checked
      // above.
      __builtin_memcpy(to + i, text.data() + i, kBlock);
    }
    size_ += text.size();
  }

  void put(char c) {
    if (size_ == buffer_.size()) {
      flush();
    }
    buffer_[size_++] = c;
  }

 private:
  void flush() {
    out_.append(buffer_.data(), size_);
    size_ = 0;
  }

  std::string& out_;
  std::size_t size_ = 0;
  std::array<char, 8192> buffer_;
};

}  // namespace tessera::extender
