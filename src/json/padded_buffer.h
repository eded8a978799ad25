// json/padded_buffer.h
//
// Bytes that simdjson may read in place.
//
// Its kernels load whole vectors and so read past the end of the text; every view that is handed out here has
// kPadding readable bytes behind it, which saves a copy of each body. A buffer is meant to be reused: clear()
// keeps its memory, so in steady state reading a body allocates nothing.
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

// As many bytes as simdjson wants to read past the end of a document.
inline constexpr std::size_t kPadding = 64;

// A text with kPadding readable bytes (of any value) behind it. Does not own it.
class PaddedView {
 public:
  PaddedView() = default;
  // The caller vouches for the padding.
  static PaddedView vouched(const char* data, std::size_t size) { return PaddedView(data, size); }

  [[nodiscard]] const char* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::string_view text() const { return {data_, size_}; }

  // A part of it; the padding of the whole stands behind every part.
  [[nodiscard]] PaddedView part(std::size_t offset, std::size_t size) const {
    return PaddedView(data_ + offset, size);
  }

 private:
  PaddedView(const char* data, std::size_t size) : data_(data), size_(size) {}

  static const char kEmpty[kPadding];
  const char* data_ = kEmpty;
  std::size_t size_ = 0;
};

// Owns and grows the memory. Moved-from buffers are empty and can be used again. One thread.
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
  // What fits without new memory.
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] std::string_view text() const { return {data_.get(), size_}; }

  // Valid until the next change of the buffer.
  [[nodiscard]] PaddedView view();

  // Room for at least `bytes` more at the end; what is written there counts once commit() says so.
  [[nodiscard]] std::span<char> prepare(std::size_t bytes);
  void commit(std::size_t bytes);

  void append(std::string_view text);

  // Forgets the first bytes and moves the rest to the front.
  void consume(std::size_t bytes);

  // Forgets the text and keeps the memory.
  void clear() { size_ = 0; }
  // Gives the memory back as well when it holds more than `keep_bytes`: one huge body must not stay for ever.
  void clear_and_trim(std::size_t keep_bytes);

 private:
  std::unique_ptr<char[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;  // without the padding
};

}  // namespace tessera::json
