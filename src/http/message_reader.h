// http/message_reader.h
//
// Turns bytes into HTTP/1.x messages, one after the other; the only user of Boost.Beast's parser.
//
// It does no I/O, so the fuzzer drives the same code as the sockets. Bytes are offered in order; what is not
// consumed has to be offered again with more behind it. Body pieces go to a BodySink as views into what was
// offered: whoever reads a body straight into its place gets that place back and has nothing to copy.
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
  int version = 11;    // 10 or 11
  std::string method;  // requests
  std::string target;  // requests
  int status = 0;      // responses
  std::string reason;  // responses
  Headers headers;
  bool keep_alive = false;  // what the sender will do after this message
  bool chunked = false;
  std::optional<std::uint64_t> content_length;
};

// Why a message was refused. The status is what a server says to it.
struct MessageFault {
  int status = 400;
  std::string text;
};

class BodySink {
 public:
  virtual ~BodySink() = default;
  // False: no more for now; the rest stays unconsumed until feed() is called again.
  virtual bool on_body(std::string_view piece) = 0;
};

class MessageReader {
 public:
  MessageReader(MessageKind kind, MessageLimits limits);
  ~MessageReader();
  MessageReader(const MessageReader&) = delete;
  MessageReader& operator=(const MessageReader&) = delete;

  // What a body may have from the next message on.
  void set_body_limit(std::uint64_t bytes) { limits_.body_bytes = bytes; }

  // For the next message. `head_only`: it has no body whatever its head says (the answer to HEAD or CONNECT).
  void start(bool head_only = false);

  // How many of the bytes were used. Comes back after the head, so that the caller can look at it before the
  // body. When nothing was used and the message is not done, more bytes are needed.
  tl::expected<std::size_t, MessageFault> feed(std::string_view bytes, BodySink& sink);

  // The sender closed its side: fine for a response whose body ends that way, else a fault.
  tl::expected<void, MessageFault> end();

  [[nodiscard]] bool started() const;
  [[nodiscard]] bool head_done() const;
  [[nodiscard]] bool done() const;
  // Of a body with a Content-Length: what is still to come. 0 otherwise.
  [[nodiscard]] std::uint64_t remaining() const;
  [[nodiscard]] const MessageHead& head() const { return head_; }

 private:
  struct Parsers;

  MessageKind kind_;
  MessageLimits limits_;
  MessageHead head_;
  std::unique_ptr<Parsers> parsers_;
};

}  // namespace tessera::http
