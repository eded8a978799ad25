#include "kube/watch_decoder.h"

#include "base/strings.h"
#include "kube/object_json.h"

namespace tessera::kube {

std::optional<WatchType> watch_type(std::string_view name) {
  if (name == "ADDED") {
    return WatchType::kAdded;
  }
  if (name == "MODIFIED") {
    return WatchType::kModified;
  }
  if (name == "DELETED") {
    return WatchType::kDeleted;
  }
  if (name == "BOOKMARK") {
    return WatchType::kBookmark;
  }
  return name == "ERROR" ? std::optional(WatchType::kError) : std::nullopt;
}

namespace {

Error not_an_event(const std::string& reason) {
  return {ErrorCode::kInvalid, "invalid watch event: " + reason};
}

Status judge(JsonError error) {
  return error == simdjson::SUCCESS ? Status{} : fail(not_an_event(simdjson::error_message(error)));
}

JsonError read_bookmark(JsonObject& object, ObjectMeta& meta) {
  return each_field(object, [&](JsonKey key, JsonValue value) {
    return is(key, "metadata") ? read_meta(value, meta) : simdjson::SUCCESS;
  });
}

Status read_object(JsonObject& object, WatchLine& line, ObjectSink& sink) {
  if (line.type == WatchType::kError) {
    std::string_view raw;
    TRY(judge(object.raw_json().get(raw)));
    line.error = TRY(with_context(parse_status(raw), "invalid watch event"));
    return {};
  }
  if (line.type == WatchType::kBookmark) {
    TRY(judge(read_bookmark(object, line.meta)));
    return line.meta.version != 0 ? Status{} : fail(not_an_event("a bookmark without resourceVersion"));
  }
  ObjectJson fields(object);
  line.decoded = sink.decode(fields, line.meta);
  if (fields.broken()) {
    return line.decoded;
  }
  return check_meta(line.meta);
}

}  // namespace

struct WatchDecoder::Impl {
  simdjson::ondemand::parser json;
  WatchLine line;
};

WatchDecoder::WatchDecoder() : impl_(std::make_unique<Impl>()) {}
WatchDecoder::WatchDecoder(WatchDecoder&&) noexcept = default;
WatchDecoder& WatchDecoder::operator=(WatchDecoder&&) noexcept = default;
WatchDecoder::~WatchDecoder() = default;

Result<const WatchLine*> WatchDecoder::decode(json::PaddedView text, ObjectSink& sink) {
  WatchLine& line = impl_->line;
  line.meta.clear();
  line.decoded = {};
  fit_parser(impl_->json, text.size());
  simdjson::ondemand::document document;
  JsonObject root;
  TRY(judge(impl_->json.iterate(text.data(), text.size(), text.size() + json::kPadding).get(document)));
  TRY(judge(document.get_object().get(root)));
  std::optional<WatchType> type;
  Status read = fail(not_an_event("it has no object after its type"));
  // Parse to the end, although everything is known after "object": otherwise a line that was
  // truncated and joined with another would go unnoticed.
  const JsonError error = each_field(root, [&](JsonKey key, JsonValue value) -> JsonError {
    if (is(key, "type")) {
      std::string_view name;
      const JsonError bad = read_view(value, name);
      type = watch_type(name);
      return bad;
    }
    if (is(key, "object") && type) {
      line.type = *type;
      JsonObject object;
      const JsonError bad = value.get_object().get(object);
      if (bad != simdjson::SUCCESS) {
        return bad;
      }
      read = read_object(object, line, sink);
      return read ? simdjson::SUCCESS : kStop;
    }
    return simdjson::SUCCESS;
  });
  if (error != kStop) {
    TRY(judge(error));
  }
  TRY(std::move(read));
  if (!at_end(document)) {
    return fail(not_an_event("it is followed by other text"));
  }
  return &line;
}

}  // namespace tessera::kube
