#include "cli/output/json_print.h"

#include <boost/json.hpp>

namespace tessera::cli {

namespace {

namespace json = boost::json;

void print(const json::value& value, std::size_t depth, std::string& out) {
  const auto line = [&](std::size_t level) {
    out += '\n';
    out.append(level * 4, ' ');
  };
  if (value.is_object() && !value.get_object().empty()) {
    out += '{';
    bool first = true;
    for (const auto& field : value.get_object()) {
      out += first ? "" : ",";
      first = false;
      line(depth + 1);
      out += json::serialize(json::value(field.key())) + ": ";
      print(field.value(), depth + 1, out);
    }
    line(depth);
    out += '}';
  } else if (value.is_array() && !value.get_array().empty()) {
    out += '[';
    bool first = true;
    for (const json::value& element : value.get_array()) {
      out += first ? "" : ",";
      first = false;
      line(depth + 1);
      print(element, depth + 1, out);
    }
    line(depth);
    out += ']';
  } else {
    out += json::serialize(value);
  }
}

}  // namespace

std::string pretty_json(const boost::json::value& value) {
  std::string out;
  print(value, 0, out);
  out += '\n';
  return out;
}

}  // namespace tessera::cli
