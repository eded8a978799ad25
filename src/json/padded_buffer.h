// json/padded_buffer.h
//
// Buffers that simdjson can parse in place.
//
// simdjson loads whole vectors and therefore reads past the end of the text. The text of every
// PaddedView is followed by kPadding readable bytes, so simdjson can parse a body without a copy.
// Reuse the buffers: clear() keeps the memory, so reading a body allocates nothing in steady state.
//
//   PaddedBuffer body;
//   std::span<char> room = body.prepare(64 * 1024);
//   body.commit(read(fd, room.data(), room.size()));
//   parse(body.view());
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace tessera::json {

// The number of bytes that simdjson may read past the end of a document.
inline constexpr std::size_t kPadding = 64;

// A text followed by kPadding readable bytes of any value. Does not own the memory.
class PaddedView {
 public:
  PaddedView() = default;
  // The caller guarantees that the padding is readable.
  static PaddedView vouched(const char* data, std::size_t size) { return PaddedView(data, size); }

  [[nodiscard]] const char* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::string_view text() const { return {data_, size_}; }

  // Returns a part of the view. The bytes after the part serve as its padding.
  [[nodiscard]] PaddedView part(std::size_t offset, std::size_t size) const {
    return PaddedView(data_ + offset, size);
  }

 private:
  PaddedView(const char* data, std::size_t size) : data_(data), size_(size) {}

  static const char kEmpty[kPadding];
  const char* data_ = kEmpty;
  std::size_t size_ = 0;
};

// Owns and grows the memory. A moved-from buffer is empty and can be reused. Not thread-safe.
class PaddedBuffer {
 public:
  PaddedBuffer() = default;
  // A copy of `text`.
  explicit PaddedBuffer(std::string_view text);
  PaddedBuffer(PaddedBuffer&& other) noexcept;
  PaddedBuffer& operator=(PaddedBuffer&& other) noexcept;
  PaddedBuffer(const PaddedBuffer&) = delete;
  PaddedBuffer& operator=(const PaddedBuffer&) = delete;
  ~PaddedBuffer() = default;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  // The number of bytes that fit without a new allocation.
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] std::string_view text() const { return {data_.get(), size_}; }

  // Valid until the buffer changes.
  [[nodiscard]] PaddedView view();

  // Returns room for at least `bytes` more bytes at the end. commit() makes the bytes that the
  // caller wrote there part of the text.
  [[nodiscard]] std::span<char> prepare(std::size_t bytes);
  void commit(std::size_t bytes);

  void append(std::string_view text);

  // Removes the first `bytes` bytes and moves the rest to the front.
  void consume(std::size_t bytes);

  // Removes the text and keeps the memory.
  void clear() { size_ = 0; }
  // Removes the text, and frees the memory if it is larger than `keep_bytes`, so that one huge body
  // does not occupy it forever.
  void clear_and_trim(std::size_t keep_bytes);

 private:
  std::unique_ptr<char[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;  // without the padding
};

}  // namespace tessera::json
