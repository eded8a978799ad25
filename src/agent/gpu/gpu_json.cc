#include "agent/gpu/gpu_json.h"

#include <boost/json.hpp>

namespace tessera::agent {

boost::json::object gpu_json(const alloc::Inventory& inventory, const Share& share) {
  boost::json::object one{{"uuid", share.device}};
  if (const auto found = inventory.find_uuid(share.device)) {
    one["index"] = inventory.gpus[*found].index;
  }
  if (share.whole) {
    one["whole"] = true;
  } else {
    one["mem"] = share.units;
  }
  if (share.core_percent > 0) {
    one["core_percent"] = share.core_percent;
  }
  return one;
}

}  // namespace tessera::agent
