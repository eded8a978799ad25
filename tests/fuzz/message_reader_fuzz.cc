// The request parser of the server, with its limits, and the response parser of the client, fed as
// the sockets feed them. A message is the same however it is cut. The first byte selects the parser
// and the size of the pieces.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/message_reader.h"

namespace {

using namespace tessera::http;

constexpr MessageLimits kLimits{.head_bytes = 512, .body_bytes = 1024};

class Collected final : public BodySink {
 public:
  bool on_body(std::string_view piece) override {
    text.append(piece);
    return text.size() % 3 != 0;  // pauses sometimes
  }
  std::string text;
};

struct Outcome {
  bool done = false;
  bool fault = false;
  std::string body;
  std::string head;
};

Outcome read(MessageKind kind, std::string_view bytes, std::size_t step) {
  MessageReader reader(kind, kLimits);
  Collected body;
  Outcome outcome;
  std::string pending;
  for (std::size_t at = 0; at < bytes.size() && !reader.done() && !outcome.fault; at += step) {
    pending += bytes.substr(at, step);
    while (!pending.empty() && !reader.done()) {
      const bool had_head = reader.head_done();
      const auto used = reader.feed(pending, body);
      if (!used) {
        outcome.fault = true;
        break;
      }
      if (*used > pending.size()) {
        std::abort();
      }
      pending.erase(0, *used);
      if (*used == 0 && had_head == reader.head_done()) {
        break;
      }
    }
  }
  outcome.done = reader.done();
  outcome.body = body.text;
  if (reader.head_done()) {
    const MessageHead& head = reader.head();
    outcome.head = head.method + " " + head.target + " " + std::to_string(head.status);
  }
  if (body.text.size() > kLimits.body_bytes) {
    std::abort();
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) {
    return 0;
  }
  const MessageKind kind = (data[0] & 0x80U) != 0 ? MessageKind::kResponse : MessageKind::kRequest;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const Outcome whole = read(kind, bytes, bytes.size());
  const Outcome cut = read(kind, bytes, std::size_t{1} + (data[0] & 0x7FU));
  // Errors may be detected later if the bytes arrive slowly, but a complete message must be the
  // same.
  if (whole.done && cut.done && (whole.body != cut.body || whole.head != cut.head)) {
    std::abort();
  }
  return 0;
}
