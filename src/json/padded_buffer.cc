#include "json/padded_buffer.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tessera::json {

static_assert(kPadding >= simdjson::SIMDJSON_PADDING);

const char PaddedView::kEmpty[kPadding] = {};

PaddedBuffer::PaddedBuffer(std::string_view text) {
  append(text);
}

PaddedBuffer::PaddedBuffer(PaddedBuffer&& other) noexcept
    : data_(std::move(other.data_)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

PaddedBuffer& PaddedBuffer::operator=(PaddedBuffer&& other) noexcept {
  data_ = std::move(other.data_);
  size_ = std::exchange(other.size_, 0);
  capacity_ = std::exchange(other.capacity_, 0);
  return *this;
}

PaddedView PaddedBuffer::view() {
  if (data_ == nullptr) {
    return {};
  }
  std::memset(data_.get() + size_, 0, kPadding);
  return PaddedView::vouched(data_.get(), size_);
}

std::span<char> PaddedBuffer::prepare(std::size_t bytes) {
  if (capacity_ - size_ < bytes) {
    const std::size_t capacity = std::max(size_ + bytes, capacity_ + capacity_ / 2);
    // Not value-initialized, because the caller is about to write to it.
    std::unique_ptr<char[]> grown(new char[capacity + kPadding]);
    if (size_ > 0) {
      std::memcpy(grown.get(), data_.get(), size_);
    }
    data_ = std::move(grown);
    capacity_ = capacity;
  }
  return {data_.get() + size_, capacity_ - size_};
}

void PaddedBuffer::commit(std::size_t bytes) {
  size_ += std::min(bytes, capacity_ - size_);
}

void PaddedBuffer::append(std::string_view text) {
  if (text.empty()) {
    return;
  }
  std::memcpy(prepare(text.size()).data(), text.data(), text.size());
  size_ += text.size();
}

void PaddedBuffer::consume(std::size_t bytes) {
  const std::size_t gone = std::min(bytes, size_);
  if (gone < size_ && gone > 0) {
    std::memmove(data_.get(), data_.get() + gone, size_ - gone);
  }
  size_ -= gone;
}

void PaddedBuffer::clear_and_trim(std::size_t keep_bytes) {
  size_ = 0;
  if (capacity_ > keep_bytes) {
    data_.reset();
    capacity_ = 0;
  }
}

}  // namespace tessera::json
