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
// The same, or "-" if nothing was measured.
std::string memory_text(const std::optional<double>& mib);
std::string percent_text(const std::optional<double>& percent);  // "12.5%" or "-"
// "ml/a, ml/b and 2 more".
std::string names_text(const std::vector<const SavingsPod*>& pods, std::size_t most);
// The name of a group: its pool and model, "?" for an unknown model.
std::string pool_text(const SavingsGroup& group);

// The answer in one sentence.
std::string headline(const SavingsView& view);

// Returns how many pods with one GPU stay whole because too little is known about them: they were
// not measured, are too young, or the options exclude them.
std::int64_t unknown_pods(const SavingsView& view);

// The price of GPUs for one hour, as far as it is known.
struct Amount {
  std::optional<double> known{};        // unset: none of the GPUs has a price
  std::vector<std::string> unpriced{};  // models without a price
};
struct Money {
  Amount freed{};  // all freed GPUs
  Amount nodes{};  // the GPUs of nodes that could be removed
  Amount empty{};  // the GPUs of nodes that already hold no GPU pod
};
std::optional<Money> money(const SavingsView& view);  // nothing if no price was given

// Sentences about the effects: freed GPUs, nodes and money.
std::vector<std::string> consequences(const SavingsView& view);

// The pods that stay whole, by reason; the reasons with the most GPUs first.
struct WholeRow {
  Whole why{};
  std::int64_t gpus = 0;
  std::vector<const SavingsPod*> pods{};
};
std::vector<WholeRow> whole_rows(const SavingsView& view);

// The pods that would be alone on their GPU, by reason; the reasons with the most pods first.
struct AloneRow {
  std::vector<Alone> why{};
  std::vector<const SavingsPod*> pods{};
};
std::vector<AloneRow> alone_rows(const SavingsView& view);

// The GPUs that several pods would share.
std::vector<const SharedGpu*> shared_gpus(const SavingsView& view);

// The warnings, at most `most` of them.
std::vector<std::string> warnings_shown(const SavingsView& view, std::size_t most);

// Pods on idle GPUs, by namespace and name.
std::vector<const SavingsPod*> idle_pods(const SavingsView& view);

// How certain the number is, which rules it follows, and what it leaves out.
std::vector<std::string> confidence(const SavingsView& view);
std::vector<std::string> assumptions(const SavingsView& view);
std::vector<std::string> left_out(const SavingsView& view);

}  // namespace tessera::cli
