// http/headers.h
//
// The header fields of one HTTP message, in the order of the message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::http {

// Compares two texts, ignoring the case of ASCII letters.
bool equals_ignoring_case(std::string_view a, std::string_view b);

// Keeps all fields in one string, so that parsing a head into a reused object allocates nothing.
class Headers {
 public:
  void add(std::string_view name, std::string_view value);
  void clear();

  // Returns the value of the first field with this name, ignoring case; "" if there is none.
  [[nodiscard]] std::string_view find(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const;
  // Returns whether a field with this name lists `token` ("Connection: keep-alive, close").
  [[nodiscard]] bool has_token(std::string_view name, std::string_view token) const;

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::string_view name(std::size_t i) const;
  [[nodiscard]] std::string_view value(std::size_t i) const;

 private:
  struct Entry {
    std::uint32_t name_at, name_size, value_size;
  };
  std::string text_;
  std::vector<Entry> entries_;
};

// Returns whether `text` has no CR, LF or NUL, so that it cannot end a field value or a request
// line.
bool is_one_line(std::string_view text);

}  // namespace tessera::http
