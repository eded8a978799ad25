// cli/savings/savings_words.h
//
// The sentences of a savings report that all formats for people share. Private to cli/savings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/savings/savings.h"

namespace tessera::cli {

// "1 GPU", "3 GPUs".
std::string counted_text(std::int64_t count, std::string_view noun);
// "12,345.60".
std::string number_text(double amount, int decimals);
// "2.9 GiB", "512 MiB".
std::string memory_text(double mib);
// The name of a group: its pool and model, "?" for an unknown model.
std::string pool_text(const SavingsGroup& group);

// The answer in one sentence.
std::string headline(const SavingsView& view);

// The value of freed GPUs for one hour. Groups without a price do not count.
struct Money {
  double freed = 0;                     // all freed GPUs
  double nodes = 0;                     // the GPUs of nodes that could be removed
  std::vector<std::string> unpriced{};  // models of groups that free GPUs but have no price
};
std::optional<Money> money(const SavingsView& view);  // nothing if no price was given

// Sentences about the effects: freed GPUs, nodes and money.
std::vector<std::string> consequences(const SavingsView& view);

// The pods that stay whole, by reason; reasons with most GPUs first.
struct WholeRow {
  Whole why{};
  std::int64_t gpus = 0;
  std::vector<const SavingsPod*> pods{};
};
std::vector<WholeRow> whole_rows(const SavingsView& view);

// Pods on idle GPUs, by namespace and name.
std::vector<const SavingsPod*> idle_pods(const SavingsView& view);

// How certain the number is, which rules it follows, and what it leaves out.
std::vector<std::string> confidence(const SavingsView& view);
std::vector<std::string> assumptions(const SavingsView& view);
std::vector<std::string> left_out(const SavingsView& view);

}  // namespace tessera::cli
