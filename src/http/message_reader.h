// http/message_reader.h
//
// Parses a sequence of HTTP/1.x messages. The only user of Boost.Beast's parser.
//
// It does no I/O, so the fuzzer tests the same code that the sockets use. The caller passes bytes
// in order. If feed() does not consume all of them, the caller passes the rest once more, followed
// by new bytes. A BodySink receives pieces of the body as views into the caller's bytes. So a
// caller that reads the body directly into its final place need not copy it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "http/headers.h"

namespace tessera::http {

enum class MessageKind { kRequest, kResponse };

struct MessageLimits {
  std::size_t head_bytes = 32U << 10U;
  std::uint64_t body_bytes = 16U << 20U;
};

struct MessageHead {
  int version = 11;    // 10: HTTP/1.0; 11: HTTP/1.1
  std::string method;  // requests
  std::string target;  // requests
  int status = 0;      // responses
  std::string reason;  // responses
  Headers headers;
  bool keep_alive = false;  // the sender keeps the connection open after this message
  bool chunked = false;
  std::optional<std::uint64_t> content_length;
};

// The reason why a message was rejected. A server responds with `status`.
struct MessageFault {
  int status = 400;
  std::string text;
};

class BodySink {
 public:
  virtual ~BodySink() = default;
  // Returns false to pause: the rest stays unconsumed until feed() is called again.
  virtual bool on_body(std::string_view piece) = 0;
};

class MessageReader {
 public:
  MessageReader(MessageKind kind, MessageLimits limits);
  ~MessageReader();
  MessageReader(const MessageReader&) = delete;
  MessageReader& operator=(const MessageReader&) = delete;

  // Sets the maximum body size, from the next message on.
  void set_body_limit(std::uint64_t bytes) { limits_.body_bytes = bytes; }

  // Starts the next message. If `head_only` is true, the message has no body, whatever its head
  // says (a response to HEAD or CONNECT).
  void start(bool head_only = false);

  // Parses `bytes` and returns how many were consumed. Stops after the head, so that the caller can
  // look at the head before the body. A result of 0 means that the reader needs more bytes, unless
  // done() is true.
  tl::expected<std::size_t, MessageFault> feed(std::string_view bytes, BodySink& sink);

  // Ends the message because the sender closed its side of the connection. Returns a fault unless
  // this is a valid end, as it is for a response without a length.
  tl::expected<void, MessageFault> end();

  [[nodiscard]] bool started() const;
  [[nodiscard]] bool head_done() const;
  [[nodiscard]] bool done() const;
  // Returns the number of missing bytes of a body with a Content-Length, otherwise 0.
  [[nodiscard]] std::uint64_t remaining() const;
  [[nodiscard]] const MessageHead& head() const { return head_; }

 private:
  struct Impl;

  MessageKind kind_;
  MessageLimits limits_;
  MessageHead head_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::http
