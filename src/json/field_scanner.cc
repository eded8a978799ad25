#include "json/field_scanner.h"

#include <algorithm>

namespace tessera::json {
namespace {

// Longer than any name, UID or continue token of an API server.
constexpr std::size_t kMaxText = 1024;

}  // namespace

FieldScanner::FieldScanner(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    wanted_.push_back({.path = path, .text = {}});
  }
}

void FieldScanner::feed(std::string_view piece) {
  for (std::size_t at = 0; at < piece.size(); ++at) {
    const char symbol = piece[at];
    if (!in_string_) {
      structural(symbol);
    } else if (after_backslash_) {
      after_backslash_ = false;
    } else if (symbol == '\\') {
      after_backslash_ = unusable_ = true;
    } else if (symbol == '"') {
      end_string();
    } else if (!unusable_) {
      string_ += symbol;
      unusable_ = string_.size() > kMaxText;
    }
  }
}

FieldScanner::Level* FieldScanner::level() {
  return depth_ == 0 || depth_ > kLevels ? nullptr : &levels_[depth_ - 1];
}

void FieldScanner::structural(char symbol) {
  switch (symbol) {
    case '{':
    case '[':
      open(symbol == '{');
      return;
    case '}':
    case ']':
      close();
      return;
    case '"':
      in_string_ = true;
      string_.clear();
      unusable_ = level() == nullptr;
      broken_ = broken_ || depth_ == 0;
      return;
    case ',':
      if (Level* const now = level()) {
        now->at_key = now->object;
      }
      return;
    default:
      return;
  }
}

void FieldScanner::open(bool object) {
  broken_ = broken_ || ended_;  // a second document
  ++depth_;
  if (Level* const now = level()) {
    *now = {.object = object, .at_key = object, .path_size = path_.size()};
  }
}

void FieldScanner::close() {
  if (depth_ == 0) {
    broken_ = true;
    return;
  }
  if (const Level* const now = level()) {
    path_.resize(now->path_size);
  }
  ended_ = --depth_ == 0;
}

void FieldScanner::end_string() {
  in_string_ = false;
  Level* const now = level();
  if (now == nullptr) {
    return;
  }
  if (now->at_key) {
    now->at_key = false;
    path_.resize(now->path_size);
    path_ += path_.empty() ? "" : ".";
    // A key with an escape or a dot is none of the wanted ones.
    const bool plain = !unusable_ && string_.find('.') == std::string::npos;
    path_ += plain ? std::string_view(string_) : std::string_view("\\");
    return;
  }
  const auto found = std::ranges::find(wanted_, path_, &Wanted::path);
  if (found != wanted_.end() && ++found->count == 1 && !unusable_) {
    found->text = string_;
  }
}

const FieldScanner::Wanted* FieldScanner::find(std::string_view path) const {
  const auto found = std::ranges::find(wanted_, path, &Wanted::path);
  return found == wanted_.end() ? nullptr : &*found;
}

std::string_view FieldScanner::text(std::string_view path) const {
  const Wanted* const found = find(path);
  return found == nullptr ? std::string_view() : found->text;
}

std::size_t FieldScanner::count(std::string_view path) const {
  const Wanted* const found = find(path);
  return found == nullptr ? 0 : found->count;
}

}  // namespace tessera::json
