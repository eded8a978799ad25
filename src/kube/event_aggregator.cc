#include "kube/event_aggregator.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

namespace tessera::kube {

namespace {

constexpr std::size_t kMaxMessage = 1024;
constexpr std::size_t kMaxName = 253;
constexpr char kSeparator = '\x1f';

// Truncates to at most `limit` bytes without splitting a UTF-8 character.
std::string cut(const std::string& text, std::size_t limit) {
  if (text.size() <= limit) {
    return text;
  }
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  return text.substr(0, end);
}

std::string object_key(const ObjectReference& about) {
  return fmt::format("{1}{0}{2}{0}{3}{0}{4}", kSeparator, about.kind, about.namespace_name, about.name,
                     about.uid);
}

std::string similar_key(const std::string& object, const EventNote& note) {
  return fmt::format("{1}{0}{2}{0}{3}", kSeparator, object, note.warning, note.reason);
}

std::string event_key(const std::string& object, const EventNote& note, bool with_message) {
  const std::string similar = similar_key(object, note);
  return with_message ? fmt::format("{1}{0}{2}", kSeparator, similar, note.message) : similar;
}

// Events about cluster-scoped objects are in the namespace "default", like those of kubelet.
std::string namespace_of(const ObjectReference& about) {
  return about.namespace_name.empty() ? "default" : about.namespace_name;
}

template <class Map, class Old>
void forget(Map& map, std::size_t limit, Old old) {
  if (map.size() < limit) {
    return;
  }
  std::erase_if(map, [&](const auto& entry) { return old(entry.second); });
  if (map.size() >= limit) {
    // All entries are recent. Start over: this costs a few more Events, but bounds the memory.
    map.clear();
  }
}

}  // namespace

EventNote EventNote::about_pod(std::string namespace_name, std::string name, std::string uid) {
  return {.about = {.kind = "Pod",
                    .namespace_name = std::move(namespace_name),
                    .name = std::move(name),
                    .uid = std::move(uid)},
          .warning = false,
          .reason = {},
          .message = {}};
}

EventNote EventNote::about_node(const std::string& name) {
  return {
      .about = {.kind = "Node", .name = name, .uid = name}, .warning = false, .reason = {}, .message = {}};
}

EventNote EventNote::as_warning(std::string event_reason, std::string text) && {
  warning = true;
  reason = std::move(event_reason);
  message = std::move(text);
  return std::move(*this);
}

EventNote EventNote::as_normal(std::string event_reason, std::string text) && {
  warning = false;
  reason = std::move(event_reason);
  message = std::move(text);
  return std::move(*this);
}

EventAggregator::EventAggregator(EventAggregatorOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

bool EventAggregator::allowed(const std::string& object) {
  const auto now = clock_.now();
  const auto [entry, fresh] =
      budgets_.try_emplace(object, Budget{.tokens = static_cast<double>(options_.burst), .at = now});
  Budget& budget = entry->second;
  const std::chrono::duration<double> passed = now - budget.at;
  budget.tokens = std::min(static_cast<double>(options_.burst),
                           budget.tokens + passed / std::chrono::duration<double>(options_.refill));
  budget.at = now;
  if (budget.tokens < 1) {
    return false;
  }
  budget.tokens -= 1;
  return true;
}

// Counts the message. Returns whether there are too many different messages with this reason, so
// that they share one Event.
bool EventAggregator::combine(const std::string& object, const EventNote& note, bool is_known) {
  Similar& similar =
      similar_.try_emplace(similar_key(object, note), Similar{.messages = 0, .since = clock_.now()})
          .first->second;
  if (clock_.now() - similar.since > options_.window) {
    similar = Similar{.messages = 0, .since = clock_.now()};
  }
  if (!is_known) {
    ++similar.messages;
  }
  return similar.messages > options_.different_messages;
}

void EventAggregator::make_room() {
  const auto now = clock_.now();
  const auto window = options_.window;
  if (known_.size() >= options_.remembered) {
    // Keep queued Events; their number is limited by the queue.
    std::erase_if(
        known_, [&](const auto& entry) { return !entry.second.queued && now - entry.second.last > window; });
    if (known_.size() >= options_.remembered) {
      std::erase_if(known_, [](const auto& entry) { return !entry.second.queued; });
    }
  }
  forget(budgets_, options_.remembered,
         [&](const Budget& b) { return now - b.at > options_.refill * options_.burst; });
  forget(similar_, options_.remembered, [&](const Similar& s) { return now - s.since > window; });
}

bool EventAggregator::record(const EventNote& given) {
  ++counts_.recorded;
  make_room();
  EventNote note = given;
  note.message = cut(note.message, kMaxMessage);
  const std::string object = object_key(note.about);
  std::string key = event_key(object, note, true);
  if (combine(object, note, known_.contains(key))) {
    key = event_key(object, note, false);
    note.message = cut("(combined from similar events): " + note.message, kMaxMessage);
  }
  auto found = known_.find(key);
  if (found != known_.end() && !found->second.queued && clock_.now() - found->second.last > options_.window) {
    known_.erase(found);
    found = known_.end();
  }
  // Counting a queued Event costs no request, so it is always allowed.
  const bool waits = found != known_.end() && found->second.queued;
  if (!waits && !allowed(object)) {
    ++counts_.silenced;
    return false;
  }
  if (!waits && queue_.size() >= options_.queue) {
    ++counts_.dropped_full;
    return false;
  }
  if (found == known_.end()) {
    found = known_.emplace(key, Known{}).first;
    found->second.first_wall = clock_.wall();
  } else {
    ++counts_.counted;
  }
  Known& known = found->second;
  known.note = std::move(note);
  known.last = clock_.now();
  known.last_wall = clock_.wall();
  ++known.count;
  if (!waits) {
    known.queued = true;
    queue_.push_back(key);
  }
  return true;
}

std::optional<EventWrite> EventAggregator::next() {
  while (!queue_.empty()) {
    const std::string key = std::move(queue_.front());
    queue_.pop_front();
    const auto found = known_.find(key);
    if (found != known_.end()) {
      found->second.queued = false;
      return found->second.name.empty() ? create(key, found->second) : update(key, found->second);
    }
  }
  return std::nullopt;
}

void EventAggregator::done(const EventWrite& write, Outcome outcome) {
  const auto found = known_.find(write.key);
  if (outcome == Outcome::kFailed) {
    ++counts_.failed;
  }
  if (found == known_.end() || outcome == Outcome::kDone) {
    return;
  }
  Known& known = found->second;
  if (write.kind == EventWrite::Kind::kUpdate && outcome == Outcome::kGone) {
    known.name.clear();
    known.count = 1;
    known.first_wall = known.last_wall;
    if (!known.queued) {
      known.queued = true;
      queue_.push_back(write.key);
    }
  } else if (write.kind == EventWrite::Kind::kCreate) {
    known.name.clear();  // it does not exist, so the next write creates it
  }
}

EventWrite EventAggregator::create(const std::string& key, Known& known) {
  const EventNote& note = known.note;
  const std::string suffix =
      fmt::format(".{:x}{:04x}", known.last_wall.time_since_epoch().count(), ++names_ & 0xFFFFU);
  known.name = cut(note.about.name, kMaxName - suffix.size()) + suffix;
  boost::json::object about{
      {"apiVersion", note.about.api_version}, {"kind", note.about.kind}, {"name", note.about.name}};
  if (!note.about.namespace_name.empty()) {
    about["namespace"] = note.about.namespace_name;
  }
  if (!note.about.uid.empty()) {
    about["uid"] = note.about.uid;
  }
  const std::string space = namespace_of(note.about);
  const boost::json::object event{
      {"apiVersion", "v1"},
      {"kind", "Event"},
      {"metadata", boost::json::object{{"name", known.name}, {"namespace", space}}},
      {"involvedObject", std::move(about)},
      {"type", note.warning ? "Warning" : "Normal"},
      {"reason", note.reason},
      {"message", note.message},
      {"source", boost::json::object{{"component", options_.component}, {"host", options_.instance}}},
      {"reportingComponent", options_.component},
      {"reportingInstance", options_.instance},
      {"firstTimestamp", rfc3339_seconds(known.first_wall)},
      {"lastTimestamp", rfc3339_seconds(known.last_wall)},
      {"count", known.count}};
  return {.kind = EventWrite::Kind::kCreate,
          .namespace_name = space,
          .name = known.name,
          .body = boost::json::serialize(event),
          .key = key};
}

EventWrite EventAggregator::update(const std::string& key, const Known& known) {
  const boost::json::object patch{{"count", known.count},
                                  {"lastTimestamp", rfc3339_seconds(known.last_wall)},
                                  {"message", known.note.message}};
  return {.kind = EventWrite::Kind::kUpdate,
          .namespace_name = namespace_of(known.note.about),
          .name = known.name,
          .body = boost::json::serialize(patch),
          .key = key};
}

}  // namespace tessera::kube
