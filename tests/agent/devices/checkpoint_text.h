// A sample of kubelet's checkpoint, the file that says which container holds which device IDs.
#pragma once

namespace tessera::agent {

// Written by kubelet 1.36, shortened.
inline constexpr const char* kCheckpointFile = R"({"Data":{"PodDeviceEntries":[
  {"PodUID":"b2b4","ContainerName":"main","ResourceName":"aliyun.com/gpu-mem",
   "DeviceIDs":{"0":["ce120724-3","ce120724-2"],"1":["ce120724-9"]},"AllocResp":"ChoK"},
  {"PodUID":"77aa","ContainerName":"cuda","ResourceName":"nvidia.com/gpu",
   "DeviceIDs":{"-1":["GPU-71aa0000-1"]},"AllocResp":""}],
  "RegisteredDevices":{"aliyun.com/gpu-mem":["ce120724-2"],"nvidia.com/gpu":["GPU-ce120724","GPU-71aa0000-1"],
   "example.com/nic":["mlx5_0"]}},"Checksum":2203446223})";

}  // namespace tessera::agent
