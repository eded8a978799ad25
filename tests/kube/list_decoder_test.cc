#include "kube/list_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "json/padded_buffer.h"
#include "recording_sink.h"

namespace tessera::kube {
namespace {

TEST(ListDecoder, ReadsTheHeadBeforeTheItems) {
  ListDecoder decoder;
  RecordingSink sink;
  json::PaddedBuffer page{std::string_view(
      R"({"metadata":{"resourceVersion":"7","continue":"c"},"items":[{"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"1"}}]})")};
  std::vector<std::string> read_so_far;
  const auto read = decoder.decode(
      page.view(), sink, [&](const ObjectMeta& meta, const Status&) { read_so_far.push_back(meta.name); },
      [&](const ListPage& head) { read_so_far.push_back(head.continue_token); });
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_THAT(read_so_far, ::testing::ElementsAre("c", "a"));
}

TEST(ListDecoder, RejectsInvalidLists) {
  ListDecoder decoder;
  RecordingSink sink;
  for (const char* text : {"", "{}", "[]", "nope", R"({"metadata":{"resourceVersion":"1"}})",
                           R"({"items":[]})", R"({"metadata":{"resourceVersion":"1"},"items":[{}]})",
                           R"({"metadata":{"resourceVersion":"1"},"items":[1]})",
                           R"({"metadata":{"resourceVersion":"1"},"items":{}})",
                           R"({"metadata":{"resourceVersion":"x"},"items":[]})",
                           R"({"metadata":{"resourceVersion":"1"},"items":[)",
                           R"({"metadata":{"resourceVersion":"1"},"items":[]} {})"}) {
    json::PaddedBuffer page{std::string_view(text)};
    EXPECT_FALSE(decoder.decode(page.view(), sink, [](const ObjectMeta&, const Status&) {})) << text;
  }
  json::PaddedBuffer fine{
      std::string_view(R"({"metadata":{"resourceVersion":"1","continue":"c"},"items":null})")};
  EXPECT_EQ(decoder.decode(fine.view(), sink, [](const ObjectMeta&, const Status&) {})->continue_token, "c");
}

}  // namespace
}  // namespace tessera::kube
