#include "http/message_reader.h"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

namespace tessera::http {
namespace {

namespace beast = boost::beast::http;
using boost::system::error_code;

MessageFault fault_of(const error_code& error, const MessageLimits& limits) {
  if (error == beast::error::body_limit) {
    return {413, "the body is larger than " + std::to_string(limits.body_bytes) + " bytes"};
  }
  if (error == beast::error::header_limit) {
    return {431, "the header fields are larger than " + std::to_string(limits.head_bytes) + " bytes"};
  }
  if (error == beast::error::bad_version) {
    return {505, "only HTTP/1.0 and HTTP/1.1 are supported"};
  }
  if (error == beast::error::bad_transfer_encoding) {
    return {501, "the only supported transfer coding is chunked"};
  }
  return {400, "not a valid HTTP message: " + error.message()};
}

// Stores the parsed head in a MessageHead and passes body pieces to the sink.
template <bool is_request>
class Parser final : public beast::basic_parser<is_request> {
 public:
  Parser(const MessageLimits& limits, MessageHead& head, bool head_only) : head_(head) {
    // Beast applies the limit to the start line and to the fields separately.
    this->header_limit(static_cast<std::uint32_t>(limits.head_bytes));
    this->body_limit(limits.body_bytes);
    if (head_only) {
      this->skip(true);
    }
  }

  std::size_t feed(std::string_view bytes, BodySink& sink, error_code& error) {
    sink_ = &sink;
    // The first call stops after the head; later calls parse the body.
    this->eager(this->is_header_done());
    const std::size_t used = this->put({bytes.data(), bytes.size()}, error);
    if (error == beast::error::need_more) {
      error = {};
    }
    return used;
  }

  // Number of body bytes so far.
  [[nodiscard]] std::uint64_t seen() const { return seen_; }

 private:
  using View = boost::beast::string_view;

  void on_request_impl(beast::verb /*verb*/, View method, View target, int version,
                       error_code& /*error*/) override {
    head_.method.assign(method.data(), method.size());
    head_.target.assign(target.data(), target.size());
    head_.version = version;
  }
  void on_response_impl(int status, View reason, int version, error_code& /*error*/) override {
    head_.status = status;
    head_.reason.assign(reason.data(), reason.size());
    head_.version = version;
  }
  void on_field_impl(beast::field /*field*/, View name, View value, error_code& /*error*/) override {
    head_.headers.add({name.data(), name.size()}, {value.data(), value.size()});
  }
  void on_header_impl(error_code& error) override {
    head_.keep_alive = this->keep_alive();
    head_.chunked = this->chunked();
    // Beast treats a request with an unknown transfer coding as one without a body, and would parse
    // its body as the next request.
    if (is_request && !head_.chunked && head_.headers.has("Transfer-Encoding")) {
      error = beast::error::bad_transfer_encoding;
    }
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>& /*length*/, error_code& /*error*/) override {}
  std::size_t on_body_impl(View piece, error_code& /*error*/) override { return pass_on(piece); }
  void on_chunk_header_impl(std::uint64_t /*size*/, View /*extensions*/, error_code& /*error*/) override {}
  std::size_t on_chunk_body_impl(std::uint64_t /*remain*/, View piece, error_code& /*error*/) override {
    return piece.empty() ? 0 : pass_on(piece);
  }
  void on_finish_impl(error_code& /*error*/) override {}

  std::size_t pass_on(View piece) {
    if (!sink_->on_body({piece.data(), piece.size()})) {
      this->eager(false);  // put() returns after this piece
    }
    seen_ += piece.size();
    return piece.size();
  }

  MessageHead& head_;
  BodySink* sink_ = nullptr;
  std::uint64_t seen_ = 0;
};

}  // namespace

struct MessageReader::Impl {
  std::optional<Parser<true>> request;
  std::optional<Parser<false>> response;

  // Calls `what` with the active parser.
  template <class What>
  auto visit(What&& what) {
    return request ? what(*request) : what(*response);
  }
};

MessageReader::MessageReader(MessageKind kind, MessageLimits limits)
    : kind_(kind), limits_(limits), impl_(std::make_unique<Impl>()) {
  start();
}

MessageReader::~MessageReader() = default;

void MessageReader::start(bool head_only) {
  head_.headers.clear();
  head_.content_length.reset();
  if (kind_ == MessageKind::kRequest) {
    impl_->request.emplace(limits_, head_, head_only);
  } else {
    impl_->response.emplace(limits_, head_, head_only);
  }
}

tl::expected<std::size_t, MessageFault> MessageReader::feed(std::string_view bytes, BodySink& sink) {
  return impl_->visit([&](auto& parser) -> tl::expected<std::size_t, MessageFault> {
    if (bytes.empty() || parser.is_done()) {
      return 0;
    }
    const bool had_head = parser.is_header_done();
    error_code error;
    const std::size_t used = parser.feed(bytes, sink, error);
    if (error) {
      return tl::unexpected(fault_of(error, limits_));
    }
    // Otherwise an endless chunk extension or trailer would be collected forever.
    if (used == 0 && bytes.size() > limits_.head_bytes) {
      return tl::unexpected(fault_of(beast::error::header_limit, limits_));
    }
    if (!had_head && parser.is_header_done()) {
      if (const auto length = parser.content_length()) {
        head_.content_length = *length;
      }
    }
    return used;
  });
}

tl::expected<void, MessageFault> MessageReader::end() {
  return impl_->visit([&](auto& parser) -> tl::expected<void, MessageFault> {
    error_code error = beast::error::partial_message;
    if (parser.got_some()) {
      parser.put_eof(error);
    }
    if (error) {
      return tl::unexpected(MessageFault{400, "the message is incomplete"});
    }
    return {};
  });
}

bool MessageReader::started() const {
  return impl_->visit([](auto& parser) { return parser.got_some(); });
}

bool MessageReader::head_done() const {
  return impl_->visit([](auto& parser) { return parser.is_header_done(); });
}

bool MessageReader::done() const {
  return impl_->visit([](auto& parser) { return parser.is_done(); });
}

std::uint64_t MessageReader::remaining() const {
  // A skipped body (in a response to HEAD) has a length too, but no bytes follow.
  if (done() || !head_.content_length) {
    return 0;
  }
  return *head_.content_length - impl_->visit([](auto& parser) { return parser.seen(); });
}

}  // namespace tessera::http
