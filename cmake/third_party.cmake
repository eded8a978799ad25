# Third-party libraries. Debian ships fmt, spdlog, simdjson and prometheus-cpp only as shared
# objects, but our programs must run on machines that do not have them. So scripts/third-party
# builds static archives of them from Debian's sources, once, into the cache. All other libraries
# ship a static archive or are header-only.

if(NOT TESSERA_THIRD_PARTY)
  execute_process(COMMAND "${CMAKE_SOURCE_DIR}/scripts/third-party" --prefix ${TESSERA_ARCH}
                  OUTPUT_VARIABLE TESSERA_THIRD_PARTY OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NOT EXISTS "${TESSERA_THIRD_PARTY}/done")
  message(FATAL_ERROR "the third-party archives are not built yet; run scripts/setup once")
endif()
list(PREPEND CMAKE_PREFIX_PATH "${TESSERA_THIRD_PARTY}")
foreach(package fmt spdlog simdjson prometheus-cpp)
  unset(${package}_DIR CACHE)  # otherwise CMake stays with the archives of an older scripts/third-party
endforeach()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED PATHS "${TESSERA_THIRD_PARTY}" NO_DEFAULT_PATH)
find_package(spdlog 1.10 REQUIRED PATHS "${TESSERA_THIRD_PARTY}" NO_DEFAULT_PATH)
find_package(simdjson 3.0 REQUIRED PATHS "${TESSERA_THIRD_PARTY}" NO_DEFAULT_PATH)
find_package(prometheus-cpp REQUIRED COMPONENTS core PATHS "${TESSERA_THIRD_PARTY}" NO_DEFAULT_PATH)
find_package(tl-expected REQUIRED)

set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.81 REQUIRED COMPONENTS json url)

set(OPENSSL_USE_STATIC_LIBS ON)
find_package(OpenSSL 3 REQUIRED)

# yaml-cpp's CMake package offers only the shared object. The archive cannot be linked into a shared
# library that does not contain libstdc++, which the simulated NVML of sanitizer builds is; those
# builds use the shared object.
if(TESSERA_SANITIZE)
  add_library(yaml_cpp_static SHARED IMPORTED)
  find_library(TESSERA_YAML_CPP NAMES libyaml-cpp.so REQUIRED)
else()
  add_library(yaml_cpp_static STATIC IMPORTED)
  find_library(TESSERA_YAML_CPP NAMES libyaml-cpp.a REQUIRED)
endif()
set_target_properties(yaml_cpp_static PROPERTIES IMPORTED_LOCATION "${TESSERA_YAML_CPP}")

# gRPC for kubelet's interfaces, without TLS, because they are Unix sockets. Debian's archives are
# linked as one group, because their lists of dependencies are incomplete. Sanitizer builds use the
# shared objects, because ThreadSanitizer can be configured to ignore shared objects that are not
# instrumented.
add_library(tessera_grpc INTERFACE)
if(TESSERA_SANITIZE)
  target_link_libraries(tessera_grpc INTERFACE
    grpc++_unsecure grpc_unsecure gpr absl_synchronization protobuf Threads::Threads)
else()
  find_library(TESSERA_GRPC NAMES libgrpc++_unsecure.a REQUIRED)
  cmake_path(GET TESSERA_GRPC PARENT_PATH tessera_archives)
  file(GLOB tessera_absl "${tessera_archives}/libabsl_*.a")
  set(tessera_grpc_archives)
  foreach(name grpc++_unsecure grpc_unsecure gpr protobuf upb address_sorting cares re2 z)
    list(APPEND tessera_grpc_archives "${tessera_archives}/lib${name}.a")
  endforeach()
  target_link_libraries(tessera_grpc INTERFACE
    -Wl,--start-group ${tessera_grpc_archives} ${tessera_absl} -Wl,--end-group Threads::Threads)
endif()

if(NOT TESSERA_TESTS STREQUAL "none")
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()
