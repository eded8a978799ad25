#include "kube/list_decoder.h"

#include <algorithm>

#include "kube/object_json.h"

namespace tessera::kube {

namespace {

// Limit for a hint of the server that is used to reserve memory.
constexpr std::uint64_t kMaxRemaining = 200'000;

static_assert(simdjson::SIMDJSON_PADDING <= json::kPadding);

Error not_a_list(JsonError error) {
  return {ErrorCode::kInvalid,
          std::string("the response is not a list of API objects: ") + simdjson::error_message(error)};
}

JsonError read_list_meta(JsonValue value, ListPage& page) {
  return each_field(value, [&](JsonKey key, JsonValue field) {
    if (is(key, "resourceVersion")) {
      return field.get_uint64_in_string().get(page.version);
    }
    if (is(key, "continue")) {
      return read_text(field, page.continue_token);
    }
    if (is(key, "remainingItemCount")) {
      std::uint64_t count = 0;
      const JsonError error = field.get_uint64().get(count);
      page.remaining = std::min<std::uint64_t>(count, kMaxRemaining);
      return error;
    }
    return simdjson::SUCCESS;
  });
}

}  // namespace

struct ListDecoder::Impl {
  simdjson::ondemand::parser json;
  ObjectMeta meta;
};

ListDecoder::ListDecoder() : impl_(std::make_unique<Impl>()) {}
ListDecoder::ListDecoder(ListDecoder&&) noexcept = default;
ListDecoder& ListDecoder::operator=(ListDecoder&&) noexcept = default;
ListDecoder::~ListDecoder() = default;

Result<ListPage> ListDecoder::decode(json::PaddedView text, ObjectSink& sink, const OnItem& on_item,
                                     const OnHead& on_head) {
  fit_parser(impl_->json, text.size());
  simdjson::ondemand::document document;
  JsonObject root;
  JsonError error = impl_->json.iterate(text.data(), text.size(), text.size() + json::kPadding).get(document);
  if (error == simdjson::SUCCESS) {
    error = document.get_object().get(root);
  }
  if (error != simdjson::SUCCESS) {
    return fail(not_a_list(error));
  }
  ListPage page;
  bool has_items = false;
  Status item_failure;
  error = each_field(root, [&](JsonKey key, JsonValue value) {
    if (is(key, "metadata")) {
      return read_list_meta(value, page);
    }
    if (!is(key, "items")) {
      return simdjson::SUCCESS;
    }
    has_items = true;
    if (on_head && page.version != 0) {
      on_head(page);
    }
    return each_element(value, [&](JsonValue element) -> JsonError {
      JsonObject fields;
      if (const JsonError bad = element.get_object().get(fields); bad != simdjson::SUCCESS) {
        return bad;
      }
      ObjectJson object(fields);
      impl_->meta.clear();
      const Status decoded = sink.decode(object, impl_->meta);
      item_failure = object.broken() ? decoded : check_meta(impl_->meta);
      if (!item_failure) {
        return kStop;
      }
      ++page.items;
      on_item(impl_->meta, decoded);
      return simdjson::SUCCESS;
    });
  });
  if (!item_failure) {
    return fail(
        std::move(item_failure).error().context("item " + std::to_string(page.items) + " of the list"));
  }
  if (error != simdjson::SUCCESS || !has_items) {
    return fail(not_a_list(has_items || error != simdjson::SUCCESS ? error : simdjson::NO_SUCH_FIELD));
  }
  if (!at_end(document)) {
    return fail(not_a_list(simdjson::TRAILING_CONTENT));
  }
  if (page.version == 0) {
    return fail(ErrorCode::kInvalid, "the list has no metadata.resourceVersion");
  }
  return page;
}

}  // namespace tessera::kube
