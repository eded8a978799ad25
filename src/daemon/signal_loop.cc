#include "daemon/signal_loop.h"

#include <poll.h>

#include <optional>
#include <thread>

#include "base/log.h"

namespace tessera::daemon {

Result<SignalLoop> SignalLoop::create(Reload reload) {
  return SignalLoop(TRY(reload == Reload::kNo ? SignalWatch::create({SIGTERM, SIGINT})
                                              : SignalWatch::create({SIGTERM, SIGINT, SIGHUP})));
}

void SignalLoop::run(http::EventLoop& loop, const Hooks& hooks) {
  loop.post(hooks.start);
  std::thread thread([&loop] { loop.run(); });
  wait_for_stop(hooks);
  hooks.stop();
  thread.join();
}

void SignalLoop::wait_for_stop(const Hooks& hooks) {
  while (true) {
    pollfd waiting{.fd = signals_.fd(), .events = POLLIN, .revents = 0};
    poll(&waiting, 1, -1);
    const std::optional<int> signal = signals_.read();
    if (signal == SIGHUP) {
      hooks.reload();
    } else if (signal) {
      log::info("stopping", {{"signal", *signal}});
      return;
    }
  }
}

}  // namespace tessera::daemon
