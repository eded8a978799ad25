#include "cli/cluster/list_pages.h"

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace tessera::cli {

namespace {

// The page decoder requires a resourceVersion. A list that kubectl saved has none ("").
constexpr std::string_view kPageStart = R"({"metadata":{"resourceVersion":"1"},"items":[)";
constexpr std::string_view kPageEnd = "]}";

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// Scans the text byte by byte. Tracks only strings, brackets and the fields of the outermost
// object.
class PageCutter {
 public:
  PageCutter(const PageLimits& limits, const std::function<Status(json::PaddedView)>& page)
      : limits_(limits), page_(page) {}

  Status take(std::string_view bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (in_item()) {
        i = TRY(take_item(bytes, i));
      } else {
        TRY(take_outside(bytes[i]));
      }
    }
    return {};
  }

  Status finish() {
    if (!began_ || depth_ > 0) {
      return fail(ErrorCode::kInvalid,
                  began_ ? "the file ends in the middle of the list" : "the file is empty");
    }
    if (!found_) {
      return fail(ErrorCode::kInvalid, "it has no `items`, so it is not a list of API objects");
    }
    return flush();
  }

 private:
  static constexpr std::size_t kList = 2;  // depth inside `items`

  [[nodiscard]] bool in_item() const { return in_items_ && depth_ > kList; }

  // Copies the part of an item that `bytes` holds from `begin` on. Returns the position of the last
  // byte copied.
  Result<std::size_t> take_item(std::string_view bytes, std::size_t begin) {
    std::size_t i = begin;
    for (; i < bytes.size() && depth_ > kList; ++i) {
      follow(bytes[i]);
    }
    buffer_.append(bytes.substr(begin, i - begin));
    item_bytes_ += i - begin;
    if (item_bytes_ > limits_.item_bytes) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("item {} is larger than {} bytes", items_, limits_.item_bytes));
    }
    if (depth_ == kList) {
      ++items_;
      item_bytes_ = 0;
      if (buffer_.size() >= limits_.page_bytes) {
        TRY(flush());
      }
    }
    return i - 1;
  }

  Status take_outside(char c) {
    if (!began_) {
      if (!is_space(c) && c != '{') {
        return fail(ErrorCode::kInvalid, "it is not a JSON object");
      }
      began_ = c == '{';
      depth_ = began_ ? 1 : 0;
      return {};
    }
    if (in_items_ && depth_ == kList && !in_string_ && !is_space(c)) {
      return take_between_items(c);
    }
    if (depth_ == 0 && !is_space(c)) {
      return fail(ErrorCode::kInvalid, "there is more text after the list");
    }
    if (depth_ == 1 && !in_string_ && c == '[' && after_colon_ && key_ == "items" && !found_) {
      in_items_ = found_ = true;
    }
    note_key(c);
    follow(c);
    return {};
  }

  Status take_between_items(char c) {
    if (c == ',') {
      return {};
    }
    if (c == ']') {
      in_items_ = false;
      --depth_;
      after_colon_ = false;
      return {};
    }
    if (c != '{') {
      return fail(ErrorCode::kInvalid, fmt::format("item {} is not an object", items_));
    }
    buffer_.append(buffer_.empty() ? kPageStart : ",");
    buffer_.append("{");
    item_bytes_ = 1;
    ++depth_;
    return {};
  }

  // Remembers the last string of the outermost object, and whether a colon followed it.
  void note_key(char c) {
    if (depth_ != 1) {
      return;
    }
    if (in_string_) {
      if (c != '"' || escaped_) {
        key_ += key_.size() < 16 ? std::string_view(&c, 1) : std::string_view();
      }
    } else if (c == '"') {
      key_.clear();
      after_colon_ = false;
    } else if (c == ':') {
      after_colon_ = true;
    } else if (c == ',') {
      after_colon_ = false;
    }
  }

  void follow(char c) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
      return;
    }
    switch (c) {
      case '"':
        in_string_ = true;
        break;
      case '{':
      case '[':
        ++depth_;
        break;
      case '}':
      case ']':
        --depth_;
        break;
      default:
        break;
    }
  }

  Status flush() {
    if (buffer_.empty()) {
      return {};
    }
    buffer_.append(kPageEnd);
    Status done = page_(buffer_.view());
    buffer_.clear();
    return done;
  }

  const PageLimits& limits_;
  const std::function<Status(json::PaddedView)>& page_;
  json::PaddedBuffer buffer_;
  std::string key_;
  std::size_t depth_ = 0;
  std::size_t items_ = 0;
  std::size_t item_bytes_ = 0;
  bool began_ = false;
  bool found_ = false;
  bool in_items_ = false;
  bool in_string_ = false;
  bool escaped_ = false;
  bool after_colon_ = false;
};

}  // namespace

Status each_page(std::istream& in, const PageLimits& limits,
                 const std::function<Status(json::PaddedView)>& page) {
  PageCutter cutter(limits, page);
  std::string chunk(64U << 10U, '\0');
  while (in) {
    in.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    TRY(cutter.take(std::string_view(chunk).substr(0, static_cast<std::size_t>(in.gcount()))));
  }
  if (in.bad()) {
    return fail(ErrorCode::kUnavailable, "it cannot be read");
  }
  return cutter.finish();
}

}  // namespace tessera::cli
