#include "daemon/yaml_setting.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::daemon {
namespace {

std::string error_of(std::string_view yaml, const std::string& name = "f.yaml") {
  std::string text;
  std::int64_t number = 0;
  const Status read = read_settings(yaml, name, [&](const YamlSetting& root) {
    return root.mapping(
        {{"text", text_into(text)}, {"list", [&](const YamlSetting& list) {
                                       return list.list(into(
                                           number, [](const YamlSetting& one) { return one.number(1, 9); }));
                                     }}});
  });
  return read ? "" : read.error().text();
}

TEST(YamlSetting, NamesLineAndColumnOfAMistake) {
  EXPECT_EQ(error_of("text: a\nlist: [1, 2]\n"), "");
  EXPECT_EQ(error_of("\ntext: [a]\n"), "f.yaml:2:7: text must be a single value");
  EXPECT_EQ(error_of("list:\n- 1\n- 10\n"), "f.yaml:3:3: list[1] is \"10\", not a number from 1 to 9");
  EXPECT_EQ(error_of("text: a\n  text: b\n").substr(0, 9), "f.yaml:2:");
}

TEST(YamlSetting, NamesTheKeysThatExist) {
  EXPECT_EQ(error_of("text: a\ntxt: b\n"), "f.yaml:2:1: txt is not a setting; there are text and list");
}

TEST(YamlSetting, NamesAFlagWithoutLineAndColumn) {
  EXPECT_EQ(error_of("text: [a]", "--text"), "--text: text must be a single value");
}

TEST(SettingPlaces, LastDocumentThatSetsAValueCounts) {
  SettingPlaces places;
  note_places("lease:\n  duration: 1s\n  name: a\n", "f.yaml", places);
  note_places("lease: {name: 'b'}", "--lease-name", places);
  const auto placed = [&](const char* text) {
    return with_place({ErrorCode::kInvalid, text}, places).text();
  };
  EXPECT_EQ(placed("lease.duration: too short"), "f.yaml:2:3: lease.duration: too short");
  EXPECT_EQ(placed("lease.name: too long"), "--lease-name: lease.name: too long");
  EXPECT_EQ(placed("lease: inconsistent"), "f.yaml:1:1: lease: inconsistent");
  EXPECT_EQ(placed("unit: never set"), "unit: never set");
}

}  // namespace
}  // namespace tessera::daemon
