// json/field_scanner.h
//
// Finds a few string fields in a JSON text that is too large to be kept in memory.
//
// The text arrives in pieces of any size. The scanner needs less than 10 KB, however long or deep
// the text is. It checks only as much of the JSON as it needs. Not thread-safe.
//
//   FieldScanner scanner({"object.metadata.name", "object.spec.nodeName"});
//   scanner.feed(piece); ...
//   if (scanner.complete()) use(scanner.text("object.metadata.name"));
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::json {

class FieldScanner {
 public:
  // A path is the keys from the root to the field, joined by dots. Arrays do not appear in it.
  explicit FieldScanner(const std::vector<std::string>& paths);

  void feed(std::string_view piece);

  // Returns whether exactly one JSON object was read to its end.
  [[nodiscard]] bool complete() const { return ended_ && !broken_; }
  // Returns the first string at this path. Returns "" if there is none, if it contains an escape,
  // or if it is longer than 1 KiB.
  [[nodiscard]] std::string_view text(std::string_view path) const;
  // Returns how many strings were found at this path.
  [[nodiscard]] std::size_t count(std::string_view path) const;

 private:
  struct Wanted {
    std::string path;
    std::string text;
    std::size_t count = 0;
  };
  struct Level {
    bool object = false;
    bool at_key = false;
    std::size_t path_size = 0;  // size of path_ without the current key
  };
  static constexpr std::size_t kLevels = 8;  // deeper fields are skipped

  [[nodiscard]] const Wanted* find(std::string_view path) const;
  [[nodiscard]] Level* level();
  void structural(char symbol);
  void open(bool object);
  void close();
  void end_string();

  std::vector<Wanted> wanted_;
  std::array<Level, kLevels> levels_{};
  std::size_t depth_ = 0;
  std::string path_;
  std::string string_;  // the start of the current string
  bool in_string_ = false;
  bool after_backslash_ = false;
  bool unusable_ = false;  // the current string has an escape or is too long
  bool ended_ = false;
  bool broken_ = false;
};

}  // namespace tessera::json
