// extender/scheduler_lease.h
//
// Whether the kube-scheduler beside this extender has begun to lead: then it will ask for binds, and what
// another extender bound until now must be known first. Only its Lease tells; kube-scheduler itself says
// nothing.
//
// On the event loop's thread.
#pragma once

#include <functional>
#include <string>

#include "kube/client.h"
#include "kube/object_sink.h"
#include "kube/reflector.h"

namespace tessera::extender {

class SchedulerLease final : public kube::ObjectSink {
 public:
  struct Options {
    std::string namespace_name;
    std::string name;
    std::string own_pod;
  };
  // `client` must live longer. `on_lead` is called when the Lease goes to a scheduler of the own pod.
  SchedulerLease(kube::Client& client, const Options& options, std::function<void()> on_lead);

  void start() { watch_.start(); }

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& /*meta*/) override { holder_.clear(); }
  void unreadable(const kube::ObjectMeta& meta, const Error& error) override;

 private:
  const std::string own_prefix_;  // of the holder's identity
  std::function<void()> on_lead_;
  std::string read_;  // by decode()
  std::string holder_;
  kube::Reflector watch_;
};

}  // namespace tessera::extender
