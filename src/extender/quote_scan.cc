#include "extender/quote_scan.h"

#include <algorithm>
#include <array>
#include <bit>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tessera::extender {

namespace {

constexpr std::size_t kBlock = 16;
static_assert(json::kPadding >= kBlock);

// One bit for each byte of a block.
struct Marks {
  std::uint32_t quotes = 0;
  std::uint32_t odd = 0;
};

#if defined(__SSE2__)
Marks marks_of(const char* block) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block));
  const __m128i quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
  const __m128i backslashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
  // As signed numbers, bytes outside of ASCII are below the control characters.
  const __m128i outside = _mm_cmplt_epi8(bytes, _mm_set1_epi8(' '));
  return {.quotes = static_cast<std::uint32_t>(_mm_movemask_epi8(quotes)),
          .odd = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_or_si128(backslashes, outside)))};
}
#else
Marks marks_of(const char* block) {
  Marks marks;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const auto byte = static_cast<unsigned char>(block[i]);
    marks.quotes |= byte == '"' ? 1U << i : 0;
    marks.odd |= byte == '\\' || byte < ' ' || byte >= 0x80 ? 1U << i : 0;
  }
  return marks;
}
#endif

}  // namespace

std::size_t find_quotes(json::PaddedView text, std::vector<std::uint32_t>& quotes, bool& odd) {
  std::size_t count = 0;
  std::uint32_t any_odd = 0;
  for (std::size_t at = 0; at < text.size(); at += kBlock) {
    if (quotes.size() < count + kBlock) {
      quotes.resize(std::max<std::size_t>(1024, quotes.size() * 2));
    }
    Marks marks = marks_of(text.data() + at);
    if (text.size() - at < kBlock) {
      const std::uint32_t inside = (1U << (text.size() - at)) - 1;
      marks = {.quotes = marks.quotes & inside, .odd = marks.odd & inside};
    }
    any_odd |= marks.odd;
    for (; marks.quotes != 0; marks.quotes &= marks.quotes - 1) {
      quotes.data()[count++] =
          static_cast<std::uint32_t>(at) + static_cast<std::uint32_t>(std::countr_zero(marks.quotes));
    }
  }
  odd = any_odd != 0;
  return count;
}

std::size_t end_of_name(json::PaddedView text, std::size_t begin) {
  if (begin >= text.size() || text.data()[begin] != '"') {
    return 0;
  }
  for (std::size_t at = begin + 1; at < text.size(); at += kBlock) {
    const Marks marks = marks_of(text.data() + at);
    const auto quote = static_cast<std::size_t>(std::countr_zero(marks.quotes));
    const auto odd = static_cast<std::size_t>(std::countr_zero(marks.odd));
    if (odd < quote) {
      return 0;
    }
    if (marks.quotes != 0) {
      return at + quote < text.size() ? at + quote : 0;
    }
  }
  return 0;
}

}  // namespace tessera::extender
